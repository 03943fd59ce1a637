#!lua flags=allow-oom
-- Gives a session up; if commands wait, another worker is woken.
-- Rewrites what is there, so it may even when Redis is full.
-- KEYS  1 session  2 inbox
-- ARGV  1 session id  2 token
--@include stored
local m = redis.call('HMGET', KEYS[1], 'own', 'ag', 'prn')
if not m[1] or m[1] ~= ARGV[2] then return end
local prefix = string.match(KEYS[1], '^.-}:')
local time = redis.call('TIME')
local now = string.format('%d', time[1] * 1000 + math.floor(time[2] / 1000))
local waits = redis.call('HLEN', KEYS[2]) > 0
if waits then
  redis.call('ZADD', prefix .. 'due:' .. m[2], now, ARGV[1])
else
  redis.call('ZADD', prefix .. 'rest', now, ARGV[1])
end
redis.call('HSET', KEYS[1], 'own', '', 'rel', ARGV[2], 'vanished', '')
if waits then
  redis.call('SPUBLISH', prefix .. 'w:' .. m[2], 'R' .. ARGV[1])
else
  redis.call('ZREM', prefix .. 'due:' .. m[2], ARGV[1])
end
if m[3] then account(prefix, m[3], ARGV[1], weigh(KEYS[1])) end
