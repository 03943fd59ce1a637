#!lua flags=allow-oom
-- A worker says what it runs and that it lives.
-- Rewrites what is there, so it may even when Redis is full.
-- KEYS  1 cards  2 workers of this agent
-- ARGV  1 agent  2 card  3 worker  4 time to live, ms
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.call('ZADD', KEYS[2], now + tonumber(ARGV[4]), ARGV[3])
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
