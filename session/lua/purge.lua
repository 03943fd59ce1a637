#!lua flags=allow-oom
-- Forgets a session that was deleted, or never completely taken in, unless somebody works on it.
-- KEYS  1 session
-- ARGV  1 session id  2 how long ago it must have been deleted, ms
-- Returns 1 if it is gone, else 0.
--@include peek
--@include forget
local prefix = string.match(KEYS[1], '^.-}:')
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local since = redis.call('ZSCORE', prefix .. 'gone', ARGV[1])
if not since or tonumber(since) > now - tonumber(ARGV[2]) then return 0 end
local m = redis.call('HMGET', KEYS[1], 'own', 'exp', 'seq', 'ag', 'was', 'heir')
if peek(prefix, ARGV[1], 'seq', 'prn')[2] then
  -- It was about to be deleted, and was not. It may rest by now.
  redis.call('ZREM', prefix .. 'gone', ARGV[1])
  return 0
end
if m[1] and (m[1] ~= '' and tonumber(m[2]) > now or redis.call('HLEN', prefix .. 'c:' .. ARGV[1]) > 0) then
  redis.call('ZADD', prefix .. 'gone', now, ARGV[1])
  return 0
end
if m[4] then redis.call('ZREM', prefix .. 'due:' .. m[4], ARGV[1]) end
forget(prefix, ARGV[1], now, 'gone', m[5] or m[6])
return 1
