#!lua flags=allow-oom
-- Keeps or ends the registration of a connection stream, records what was written, and lets go of what was
-- delivered. Rewrites or frees what is there, so it may even when Redis is full.
-- KEYS  1 connection  2 outbox
-- ARGV  1 holder  2 written cursor or ''  3 '0' ends it  4 time to live of the connection, s
--       5 the last entry of the outbox that was delivered, or ''  6 the last of those that are settled
--       7… the outbox's window, see trim
-- Returns 0 if another holder has the stream, else 1.
--@include trim
local held = redis.call('HMGET', KEYS[1], 'holder', 'before')
if held[2] == ARGV[1] then
  -- The next holder begins where this one has ended.
  if ARGV[2] ~= '' then redis.call('HSET', KEYS[1], 'written', ARGV[2]) end
  if ARGV[3] == '0' then redis.call('HDEL', KEYS[1], 'before') end
end
if not held[1] then return 1 end
if held[1] ~= ARGV[1] then return 0 end
if ARGV[2] ~= '' then
  redis.call('HSET', KEYS[1], 'written', ARGV[2])
  redis.call('HDEL', KEYS[1], 'before')
end
if ARGV[3] == '0' then redis.call('HDEL', KEYS[1], 'holder') end
if ARGV[5] ~= '' then
  redis.call('HSET', KEYS[1], 'dlv', ARGV[5])
  trim(KEYS[1], KEYS[2], tonumber(ARGV[6]), 7)
end
redis.call('EXPIRE', KEYS[1], ARGV[4])
redis.call('EXPIRE', KEYS[2], ARGV[4])
return 1
