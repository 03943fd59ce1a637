-- Names a session of this partition that wants a worker: one whose lease ran out, else the one
-- that waits longest.
-- KEYS  1 ready queue  2 leases
-- Returns a session id or nothing.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local expired = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now, 'LIMIT', 0, 1)
if expired[1] then return expired[1] end
return redis.call('ZRANGE', KEYS[1], 0, 0)[1]
