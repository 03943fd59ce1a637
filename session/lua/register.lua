#!lua flags=allow-oom
-- A worker says what it runs and that it lives. What is shown is the card of the worker that came last of
-- those alive, so that two versions side by side don't take turns.
-- Rewrites what is there, so it may even when Redis is full.
-- KEYS  1 cards  2 workers of this agent  3 the order in which they came
-- ARGV  1 agent  2 card  3 worker  4 how long it counts as alive, ms  5 how long it keeps its place after that, ms
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZADD', KEYS[2], now + tonumber(ARGV[4]), ARGV[3])
for _, gone in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now - tonumber(ARGV[5]))) do
  redis.call('ZREM', KEYS[2], gone)
  redis.call('ZREM', KEYS[3], gone)
end
if not redis.call('ZSCORE', KEYS[3], ARGV[3]) then
  local last = redis.call('ZREVRANGE', KEYS[3], 0, 0, 'WITHSCORES')
  redis.call('ZADD', KEYS[3], (tonumber(last[2]) or 0) + 1, ARGV[3])
end
local at = 0
while true do
  local latest = redis.call('ZREVRANGE', KEYS[3], at, at)[1]
  if latest == ARGV[3] then
    redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
    return
  end
  local ends = redis.call('ZSCORE', KEYS[2], latest)
  if ends and tonumber(ends) > now then return end
  at = at + 1
end
