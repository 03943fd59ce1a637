-- Counts the sessions of this partition that want a worker now.
-- KEYS  1 due
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
return redis.call('ZCOUNT', KEYS[1], '-inf', now)
