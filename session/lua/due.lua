-- Names sessions of this partition that want a worker: those whose turn has come longest ago.
-- KEYS  1 due
-- ARGV  1 at most so many
-- Returns {now, ms, {session, session, …}}
local time = redis.call('TIME')
local now = string.format('%d', time[1] * 1000 + math.floor(time[2] / 1000))
return { now, redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, ARGV[1]) }
