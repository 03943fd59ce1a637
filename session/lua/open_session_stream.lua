#!lua flags=allow-oom
-- Registers the holder of a session stream and tells an earlier one that it lost it.
-- Rewrites one field, or adds one that its stream's end removes, so it may even when Redis is full: clients whose
-- gateway restarts then have to get their streams back.
-- KEYS  1 session  2 parties
-- ARGV  1 session id  2 principal  3 connection  4 holder  5 time to live, ms
-- Returns {} or {written, 1 if an earlier holder has yet to say how far it has written,
--         head, route, controller, directive, view, pending}
--@include view
--@include thaw
local s = fields_of('prn', 'seq', 'ctl', 'view', 'pend')
if not s[1] or s[1] ~= ARGV[2] then return {} end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local expires = now + tonumber(ARGV[5])
local held = redis.call('HMGET', KEYS[2], 's:' .. ARGV[3], 'b:' .. ARGV[3])
local holder, ends = string.match(held[1] or '', '^(%S+) (%d+)$')
local before = held[2]
-- Who has not written anything yet says nothing about those before it.
if not before and holder and tonumber(ends) > now and holder ~= ARGV[4] then
  before = holder
  redis.call('HSET', KEYS[2], 'b:' .. ARGV[3], before)
end
redis.call('HSET', KEYS[2], 's:' .. ARGV[3], ARGV[4] .. ' ' .. string.format('%d', expires))
local prefix = string.match(KEYS[1], '^.-}:')
redis.call('SPUBLISH', prefix .. 'n:' .. ARGV[1], 'T' .. ARGV[3] .. '\n' .. ARGV[4])
local p = redis.call('HMGET', KEYS[2], 't:' .. ARGV[3], 'r:' .. ARGV[3], 'd:' .. ARGV[3])
return { p[1] or '', before and 1 or 0, s[2], p[2] or '', s[3] or '', p[3] or '', view_of(s[4]), s[5] or '' }
