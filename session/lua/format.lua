#!lua flags=allow-oom
-- Notes the format that is written from now on; one that is higher stays. A few bytes, once: also when Redis is full.
-- KEYS  1 the format
-- ARGV  1 its number  2 the number and the first version that reads it
local noted = tonumber(string.match(redis.call('GET', KEYS[1]) or '', '^%d+'))
if not noted or noted < tonumber(ARGV[1]) then redis.call('SET', KEYS[1], ARGV[2]) end
