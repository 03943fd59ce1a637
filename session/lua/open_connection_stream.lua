#!lua flags=allow-oom
-- Registers the holder of a connection stream and tells an earlier one that it lost it.
-- As open_session_stream, it may even when Redis is full.
-- KEYS  1 connection
-- ARGV  1 connection id  2 holder  3 time to live of the connection, s
-- Returns {written, 1 if an earlier holder has yet to say how far it has written}
local held = redis.call('HMGET', KEYS[1], 'holder', 'before')
local before = held[2]
-- Who has not written anything yet says nothing about those before it.
if not before and held[1] and held[1] ~= ARGV[2] then
  before = held[1]
  redis.call('HSET', KEYS[1], 'before', before)
end
redis.call('HSET', KEYS[1], 'holder', ARGV[2])
redis.call('EXPIRE', KEYS[1], ARGV[3])
local prefix = string.match(KEYS[1], '^.-}:')
redis.call('SPUBLISH', prefix .. 'y:' .. ARGV[1], 'T' .. ARGV[1] .. '\n' .. ARGV[2])
return { redis.call('HGET', KEYS[1], 'written') or '', before and 1 or 0 }
