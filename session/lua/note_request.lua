-- Notes which session a request of a connection went to, and forgets requests that are done with.
-- KEYS  1 requests of the connection
-- ARGV  1 idempotency key  2 session id  3 time to live, s  4 from how many on some are looked at
--       5 how many at a time  6 how long one is left alone, ms  7… key and note of each to forget
-- Returns {key, session id, note, …} a few that may be done with
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2] .. ' ' .. string.format('%d', now))
redis.call('EXPIRE', KEYS[1], ARGV[3])
for at = 7, #ARGV, 2 do
  -- The same id may have been used again meanwhile.
  if redis.call('HGET', KEYS[1], ARGV[at]) == ARGV[at + 1] then redis.call('HDEL', KEYS[1], ARGV[at]) end
end
if redis.call('HLEN', KEYS[1]) < tonumber(ARGV[4]) then return {} end
local found = {}
-- By chance: no order has to be kept, and what lives is not met again and again.
local some = redis.call('HRANDFIELD', KEYS[1], ARGV[5], 'WITHVALUES')
for at = 1, #some, 2 do
  local session, noted = string.match(some[at + 1], '^(%S+) (%d+)$')
  -- The step that takes the request may still be on its way.
  if tonumber(noted) + tonumber(ARGV[6]) <= now then
    for _, value in ipairs({ some[at], session, some[at + 1] }) do found[#found + 1] = value end
  end
end
return found
