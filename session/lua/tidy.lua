#!lua flags=allow-oom
-- Names sessions of a partition that rest long enough to be made smaller, those nobody uses, and those
-- that were deleted.
-- KEYS  1 rest  2 idle  3 gone
-- ARGV  1 how long they must have rested, ms  2 how long they may be unused, ms  3 how many at most
--       4 how long the caller may take, ms  5 how long deleted ones are kept, ms
-- Returns {resting, unused, deleted}
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local resting = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now - tonumber(ARGV[1]), 'LIMIT', 0, ARGV[3])
for _, session in ipairs(resting) do
  -- Nobody else has to; if the caller vanishes, somebody will.
  redis.call('ZADD', KEYS[1], now + tonumber(ARGV[4]), session)
end
local unused = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now - tonumber(ARGV[2]), 'LIMIT', 0, ARGV[3])
local deleted = redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', now - tonumber(ARGV[5]), 'LIMIT', 0, ARGV[3])
return { resting, unused, deleted }
