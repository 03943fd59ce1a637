#!lua flags=allow-oom
-- Takes something back. Few and small, and nobody may be kept out by filling Redis: it may when it is full.
-- KEYS  1 revocations  2 when they end
-- ARGV  1 subject  2 revocation  3 what was issued at or before this is refused, s  4 when it ends, s
local known = redis.call('HGET', KEYS[1], ARGV[1])
local before = known and string.match(known, '^1 (%d+) ')
-- The later one stays.
if before and tonumber(before) > tonumber(ARGV[3]) then return end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.call('ZADD', KEYS[2], ARGV[4], ARGV[1])
-- Again if it is repeated: the first time may have reached nobody.
redis.call('SPUBLISH', string.match(KEYS[1], '^.-}:') .. 'n', 'V' .. ARGV[2])
