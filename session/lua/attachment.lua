-- What the session knows of a connection.
-- KEYS  1 session  2 parties
-- ARGV  1 principal  2 connection
-- Returns {} or {head, route, controller, directive, view, pending, 'd' if it was deleted or 'c' if the connection has
--         closed it, the watch that has ended, see unwatch.lua}
--@include view
--@include thaw
local s = fields_of('prn', 'seq', 'ctl', 'view', 'pend', 'shut')
-- One that was deleted has lost its principal, but not its streams.
local was = not s[1] and redis.call('HGET', KEYS[1], 'was')
if (s[1] or was) ~= ARGV[1] then return {} end
local p = redis.call('HMGET', KEYS[2], 'r:' .. ARGV[2], 'd:' .. ARGV[2], 'l:' .. ARGV[2])
local left = string.match(p[3] or '', '^%d+$') or '0'
local standing = was and 'd' or s[6] == ARGV[2] and 'c' or ''
return { s[2], p[1] or '', s[3] or '', p[2] or '', view_of(s[4]), s[5] or '', standing, left }
