#!lua flags=allow-oom
-- Extends the leases of sessions of one partition.
-- Rewrites what is there, so it may even when Redis is full.
-- KEYS  sessions
-- ARGV  1 lease, ms; then per session its id and token
-- Returns the positions (from 1) of those that belong to somebody else.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local expires = string.format('%d', now + tonumber(ARGV[1]))
local lost = {}
for at, key in ipairs(KEYS) do
  local m = redis.call('HMGET', key, 'own', 'ag', 'wk', 'exp')
  if m[1] == ARGV[at * 2 + 1] then
    local prefix = string.match(key, '^.-}:')
    redis.call('ZADD', prefix .. 'due:' .. m[2], expires, ARGV[at * 2])
    redis.call('HSET', key, 'exp', expires, 'ren', '1')
    -- A command may have come while the lease was over: others were told, the holder was not.
    if tonumber(m[4]) <= now then
      redis.call('SPUBLISH', prefix .. 'o:' .. m[3], 'I' .. ARGV[at * 2])
    end
  else
    lost[#lost + 1] = at
  end
end
return lost
