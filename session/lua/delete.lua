#!lua flags=allow-oom
-- Deletes a session for everybody but its holder; the rest is housekeeping's. Frees memory in the end,
-- so it may even when Redis is full.
-- KEYS  1 session
-- ARGV  1 session id  2 principal  3 head of the last command  4 its message
-- Returns 1, or 0 if there was none.
--@include thaw
--@include hide
local m = fields_of('prn', 'cwd', 'own', 'cn', 'bound')
if not m[1] or m[1] ~= ARGV[2] then return 0 end
local prefix = string.match(KEYS[1], '^.-}:')
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
hide(prefix, ARGV[1], m[1], m[2], now)
-- Streams look again.
redis.call('SPUBLISH', prefix .. 'n:' .. ARGV[1], 'A' .. (redis.call('HGET', KEYS[1], 'ctl') or ''))
if m[3] ~= '' or m[4] ~= '0' or is_bound(m[5]) then finish(prefix, ARGV[1], now, ARGV[3], ARGV[4]) end
return 1
