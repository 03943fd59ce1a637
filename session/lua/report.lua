#!lua flags=allow-oom
-- Keeps what a process says of itself, in the place of what it said before, and hands it what it is asked to do.
-- It is small, ends by itself, and there are only so many: so it may even when Redis is full.
-- KEYS  1 reports
-- ARGV  1 process  2 its report  3 how long it counts, ms  4 at most so many
-- Returns the order that is open for it, if there is one
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if redis.call('HLEN', KEYS[1]) >= tonumber(ARGV[4]) then
  local all = redis.call('HGETALL', KEYS[1])
  for at = 1, #all, 2 do
    if tonumber(string.match(all[at + 1], '^%d+')) <= now then redis.call('HDEL', KEYS[1], all[at]) end
  end
end
if redis.call('HLEN', KEYS[1]) < tonumber(ARGV[4]) or redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then
  redis.call('HSET', KEYS[1], ARGV[1], string.format('%d ', now + tonumber(ARGV[3])) .. ARGV[2])
end
-- Who may only read orders may not name them as a key of a script.
local order = redis.call('HGET', string.match(KEYS[1], '^.-}:') .. 'orders', ARGV[1])
if not order or tonumber(string.match(order, '^%d+')) <= now then return false end
return string.match(order, '^%d+ (.*)$')
