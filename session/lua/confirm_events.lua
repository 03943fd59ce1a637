#!lua flags=allow-oom
-- Replicas have a log up to an event: from here on it is shown so far, and those who follow the session are told.
-- Rewrites or frees what is there, so it may even when Redis is full.
-- KEYS  1 session
-- ARGV  1 session id  2 that event  3 the signal
local first, last = string.match(redis.call('HGET', KEYS[1], 'unc') or '', '^(%d+) (%d+)$')
local upto = tonumber(ARGV[2])
if last and tonumber(last) <= upto then
  redis.call('HDEL', KEYS[1], 'unc')
elseif last and tonumber(first) <= upto then
  redis.call('HSET', KEYS[1], 'unc', string.format('%d %s', upto + 1, last))
end
redis.call('SPUBLISH', string.match(KEYS[1], '^.-}:') .. 'n:' .. ARGV[1], ARGV[3])
return 1
