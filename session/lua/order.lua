#!lua flags=allow-oom
-- Asks a process to do something: it hears of it with its next report. Processes that do not report are asked nothing.
-- KEYS  1 reports
-- ARGV  1 process  2 the order  3 how long it is open, ms
-- Returns 1, or 0 if there is no such process
if redis.call('HEXISTS', KEYS[1], 'r:' .. ARGV[1]) == 0 then return 0 end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('HSET', KEYS[1], 'o:' .. ARGV[1], string.format('%d ', now + tonumber(ARGV[3])) .. ARGV[2])
return 1
