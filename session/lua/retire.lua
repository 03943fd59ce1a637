#!lua flags=allow-oom
-- Forgets agents that no worker has run for so long.
-- KEYS  1 cards
-- ARGV  1 how long, ms
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local prefix = string.match(KEYS[1], '^.-}:')
for _, agent in ipairs(redis.call('HKEYS', KEYS[1])) do
  local last = redis.call('ZREVRANGE', prefix .. 'alive:' .. agent, 0, 0, 'WITHSCORES')
  if (tonumber(last[2]) or 0) <= now - tonumber(ARGV[1]) then
    redis.call('HDEL', KEYS[1], agent)
    redis.call('DEL', prefix .. 'alive:' .. agent, prefix .. 'came:' .. agent)
  end
end
