-- Who holds a session now.
-- KEYS  1 session
-- ARGV  1 principal
-- Returns the worker, or '' if nobody holds it, or it is somebody else's
local m = redis.call('HMGET', KEYS[1], 'prn', 'own', 'exp', 'wk')
if m[1] ~= ARGV[1] or not m[2] or m[2] == '' then return '' end
local time = redis.call('TIME')
if (tonumber(m[3]) or 0) <= time[1] * 1000 + math.floor(time[2] / 1000) then return '' end
return m[4] or ''
