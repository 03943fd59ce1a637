-- What the session knows of a connection.
-- KEYS  1 session  2 parties
-- ARGV  1 principal  2 connection
-- Returns {} or {head, route, controller, directive, view, pending, and 1 if it was deleted}
--@include view
--@include thaw
local s = fields_of('prn', 'seq', 'ctl', 'view', 'pend')
-- One that was deleted has lost its principal, but not its streams.
local was = not s[1] and redis.call('HGET', KEYS[1], 'was')
if (s[1] or was) ~= ARGV[1] then return {} end
local p = redis.call('HMGET', KEYS[2], 'r:' .. ARGV[2], 'd:' .. ARGV[2])
return { s[2], p[1] or '', s[3] or '', p[2] or '', view_of(s[4]), s[5] or '', was and 1 or nil }
