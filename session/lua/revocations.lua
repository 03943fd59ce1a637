#!lua flags=allow-oom
-- A page of what was taken back. Removes what has ended, so it may even when Redis is full.
-- KEYS  1 revocations  2 when they end
-- ARGV  1 cursor, '0' at first  2 how many
-- Returns {the next cursor, '0' at the end; revocations …}
local ended = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', redis.call('TIME')[1], 'LIMIT', 0, ARGV[2])
for _, subject in ipairs(ended) do
  redis.call('HDEL', KEYS[1], subject)
  redis.call('ZREM', KEYS[2], subject)
end
local page = redis.call('HSCAN', KEYS[1], ARGV[1], 'COUNT', ARGV[2])
local found = { page[1] }
for at = 2, #page[2], 2 do
  found[#found + 1] = page[2][at]
end
return found
