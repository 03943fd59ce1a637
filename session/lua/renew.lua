-- Extends the leases of sessions of one partition.
-- KEYS  sessions
-- ARGV  1 lease, ms; then per session its id and token
-- Returns the positions (from 1) of those that belong to somebody else.
local time = redis.call('TIME')
local expires = string.format('%d', time[1] * 1000 + math.floor(time[2] / 1000) + tonumber(ARGV[1]))
local lost = {}
for at, key in ipairs(KEYS) do
  local m = redis.call('HMGET', key, 'own', 'ag')
  if m[1] == ARGV[at * 2 + 1] then
    redis.call('HSET', key, 'exp', expires)
    redis.call('ZADD', string.match(key, '^.-}:') .. 'lx:' .. m[2], expires, ARGV[at * 2])
  else
    lost[#lost + 1] = at
  end
end
return lost
