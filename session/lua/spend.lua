#!lua flags=allow-oom
-- Takes a name that may be taken once. Also when Redis is full: names come with a signature that was
-- verified, are short and soon forgotten, and without them nobody could make room.
-- KEYS  1 the name
-- ARGV  1 this call  2 how long it counts as taken, ms
-- Returns 1 if it is this call that took it, also when the call is repeated; else 0.
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 1 end
return redis.call('GET', KEYS[1]) == ARGV[1] and 1 or 0
