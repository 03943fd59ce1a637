#!lua flags=allow-oom
-- Names sessions of a partition that rest long enough to be made smaller, and those nobody uses.
-- KEYS  1 rest  2 idle
-- ARGV  1 how long they must have rested, ms  2 how long they may be unused, ms  3 how many at most
--       4 how long the caller may take, ms
-- Returns {resting, unused}
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local resting = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now - tonumber(ARGV[1]), 'LIMIT', 0, ARGV[3])
for _, session in ipairs(resting) do
  -- Nobody else has to; if the caller vanishes, somebody will.
  redis.call('ZADD', KEYS[1], now + tonumber(ARGV[4]), session)
end
local unused = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now - tonumber(ARGV[2]), 'LIMIT', 0, ARGV[3])
return { resting, unused }
