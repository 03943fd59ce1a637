-- Names a session of this partition that wants a worker: the one whose turn has come longest ago.
-- KEYS  1 due
-- Returns a session id or nothing.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
return redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, 1)[1]
