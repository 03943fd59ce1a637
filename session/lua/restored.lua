#!lua flags=allow-oom
-- Notes what was drawn when all of this was restored from a backup. A few bytes, once: also when Redis is full.
-- KEYS  1 the note
-- ARGV  1 what was drawn
redis.call('SET', KEYS[1], ARGV[1])
