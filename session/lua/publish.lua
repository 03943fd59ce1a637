-- A session that was taken in is complete: it appears, and is given up.
-- KEYS  1 session
-- ARGV  1 session id  2 token
-- Returns 1, or 0 if it is not the caller's any more.
--@include lists
--@include stored
local prefix = string.match(KEYS[1], '^.-}:')
local m = redis.call('HMGET', KEYS[1], 'own', 'heir', 'upd', 'cwd', 'ag', 'rel', 'prn')
local again = m[6] == ARGV[2]
-- It was deleted since.
if again and not m[7] then return 1 end
if not again then
  if not m[2] or m[1] ~= ARGV[2] then return 0 end
  local time = redis.call('TIME')
  redis.call('ZADD', prefix .. 'rest', time[1] * 1000 + math.floor(time[2] / 1000), ARGV[1])
  list(prefix, ARGV[1], m[2], m[4], m[3])
  redis.call('HSET', KEYS[1], 'prn', m[2], 'own', '', 'rel', ARGV[2])
end
redis.call('HDEL', KEYS[1], 'heir', 'upd')
redis.call('ZREM', prefix .. 'due:' .. m[5], ARGV[1])
redis.call('ZREM', prefix .. 'gone', ARGV[1])
account(prefix, m[7] or m[2], ARGV[1], weigh(KEYS[1]))
return 1
