#!lua flags=allow-oom
-- Asks a process to do something: it hears of it with its next report. Processes that do not report are asked nothing.
-- KEYS  1 reports  2 orders
-- ARGV  1 process  2 the order  3 how long it is open, ms
-- Returns 1, or 0 if there is no such process
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 0 end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local all = redis.call('HGETALL', KEYS[2])
for at = 1, #all, 2 do
  if tonumber(string.match(all[at + 1], '^%d+')) <= now then redis.call('HDEL', KEYS[2], all[at]) end
end
redis.call('HSET', KEYS[2], ARGV[1], string.format('%d ', now + tonumber(ARGV[3])) .. ARGV[2])
return 1
