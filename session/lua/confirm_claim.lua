#!lua flags=allow-oom
-- Replicas have the claim: from here on its holder works, and counts as vanished if it does not renew its lease.
-- Rewrites what is there, so it may even when Redis is full.
-- KEYS  1 session
-- ARGV  1 token
-- Returns 1, or 0 if somebody else has it, or its lease was renewed already.
local m = redis.call('HMGET', KEYS[1], 'own', 'ren')
if m[1] ~= ARGV[1] or m[2] ~= 'c' then return 0 end
redis.call('HSET', KEYS[1], 'ren', '0')
return 1
