#!lua flags=allow-oom
-- Gives a session up; if commands wait, another worker is woken.
-- Rewrites what is there, so it may even when Redis is full.
-- KEYS  1 session
-- ARGV  1 session id  2 token
local m = redis.call('HMGET', KEYS[1], 'own', 'ag', 'cn')
if not m[1] or m[1] ~= ARGV[2] then return end
local prefix = string.match(KEYS[1], '^.-}:')
redis.call('HSET', KEYS[1], 'own', '', 'rel', ARGV[2])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if m[3] == '0' then
  redis.call('ZREM', prefix .. 'due:' .. m[2], ARGV[1])
  redis.call('ZADD', prefix .. 'rest', now, ARGV[1])
else
  redis.call('ZADD', prefix .. 'due:' .. m[2], now, ARGV[1])
  redis.call('SPUBLISH', prefix .. 'w:' .. m[2], 'R' .. ARGV[1])
end
