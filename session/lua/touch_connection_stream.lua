#!lua flags=allow-oom
-- Keeps or ends the registration of a connection stream and records what was written.
-- Rewrites what is there, so it may even when Redis is full.
-- KEYS  1 connection  2 outbox
-- ARGV  1 holder  2 written cursor or ''  3 '0' ends it  4 time to live of the connection, s
-- Returns 0 if another holder has the stream, else 1.
local holder = redis.call('HGET', KEYS[1], 'holder')
if not holder then return 1 end
if holder ~= ARGV[1] then return 0 end
if ARGV[2] ~= '' then redis.call('HSET', KEYS[1], 'written', ARGV[2]) end
if ARGV[3] == '0' then redis.call('HDEL', KEYS[1], 'holder') end
redis.call('EXPIRE', KEYS[1], ARGV[4])
redis.call('EXPIRE', KEYS[2], ARGV[4])
return 1
