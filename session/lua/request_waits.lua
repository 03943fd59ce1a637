-- Whether a request waits or runs. A session that rests has none, and goes on resting.
-- KEYS  1 session  2 inbox
-- ARGV  1 idempotency key, 12 bytes
-- Returns 1 or 0
--@include known
local request = remembered(redis.call('HGET', KEYS[1], 'known') or '', ARGV[1])
if not request then return 0 end
return redis.call('HEXISTS', KEYS[2], name_of(request.number, request.nonce))
