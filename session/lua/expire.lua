#!lua flags=allow-oom
-- Forgets a session that nobody has used for so long, unless somebody has come since.
-- KEYS  1 session  2 log  3 history  4 inbox  5 parties
-- ARGV  1 session id  2 how long it may be unused, ms
-- Returns 1 if it is gone, else 0.
local prefix = string.match(KEYS[1], '^.-}:')
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local used = redis.call('ZSCORE', prefix .. 'idle', ARGV[1])
if not used or tonumber(used) > now - tonumber(ARGV[2]) then return 0 end
local m = redis.call('HMGET', KEYS[1], 'own', 'cn')
local busy = m[1] and (m[1] ~= '' or m[2] ~= '0') or redis.call('ZSCORE', prefix .. 'rest', ARGV[1])
for _, value in ipairs(redis.call('HVALS', KEYS[5])) do
  local expires = string.match(value, '^%S+ (%d+)$')
  busy = busy or expires and tonumber(expires) > now
end
if busy then
  redis.call('ZADD', prefix .. 'idle', now, ARGV[1])
  return 0
end
redis.call('UNLINK', KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], prefix .. 'z:' .. ARGV[1])
redis.call('ZREM', prefix .. 'idle', ARGV[1])
return 1
