#!lua flags=allow-oom
-- Names sessions of this partition that want a worker: those whose turn has come longest ago. A worker that asks says how much room it
-- has; one that has not asked for a while is struck off. That is a few bytes for each worker, so it may even when Redis is full, and is
-- written only if it changes or gets old.
-- KEYS  1 due  2 room  3 when each worker has asked
-- ARGV  1 at most so many  2 the worker, or '' for others who ask  3 how many sessions it has room for
--       4 how long it counts, ms
-- Returns {now, ms, {session, session, …}}
local time = redis.call('TIME')
local at = time[1] * 1000 + math.floor(time[2] / 1000)
local now = string.format('%d', at)
if ARGV[2] ~= '' then
  local room = redis.call('ZSCORE', KEYS[2], ARGV[2])
  if ARGV[3] ~= '0' and room ~= ARGV[3] then
    redis.call('ZADD', KEYS[2], ARGV[3], ARGV[2])
  elseif ARGV[3] == '0' and room then
    redis.call('ZREM', KEYS[2], ARGV[2])
  end
  local counts, asked = tonumber(ARGV[4]), tonumber(redis.call('ZSCORE', KEYS[3], ARGV[2]) or '0')
  if at - asked > counts / 3 or asked > at then
    redis.call('ZADD', KEYS[3], now, ARGV[2])
    local silent = redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', string.format('%d', at - counts), 'LIMIT', 0, 100)
    if #silent > 0 then
      redis.call('ZREM', KEYS[2], unpack(silent))
      redis.call('ZREM', KEYS[3], unpack(silent))
    end
  end
end
return { now, redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, ARGV[1]) }
