-- What the session knows of a connection.
-- KEYS  1 session  2 parties
-- ARGV  1 principal  2 connection
-- Returns {} or {head, route, controller, directive, view, pending}
--@include view
--@include thaw
local s = fields_of('prn', 'seq', 'ctl', 'view', 'pend')
if not s[1] or s[1] ~= ARGV[1] then return {} end
local p = redis.call('HMGET', KEYS[2], 'r:' .. ARGV[2], 'd:' .. ARGV[2])
return { s[2], p[1] or '', s[3] or '', p[2] or '', view_of(s[4]), s[5] or '' }
