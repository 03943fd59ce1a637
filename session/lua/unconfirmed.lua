-- How far a log reaches that has events which replicas may lack. To be run as a step that replicas confirm: they
-- then have everything up to there.
-- KEYS  1 session
-- Returns {} or {last event}
local m = redis.call('HMGET', KEYS[1], 'unc', 'seq')
if not m[1] then return {} end
return { m[2] }
