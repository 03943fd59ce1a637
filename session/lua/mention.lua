-- Sessions of an agent came from elsewhere: somebody may wait for it, whether or not it was ever run here.
-- KEYS  1 cards  2 workers of this agent
-- ARGV  1 agent
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if redis.call('HSETNX', KEYS[1], ARGV[1], '') == 1 then
  -- Nobody, who is not alive: from now on it counts how long there is none.
  redis.call('ZADD', KEYS[2], now, '')
end
