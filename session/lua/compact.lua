#!lua flags=allow-oom
-- Puts blocks in the place of a log's first frames, which hold the same events. Whoever holds the
-- session is not concerned: what is written never changes.
-- KEYS  1 session  2 log  3 history  4 parties  5 inbox
-- ARGV  1 session id  2 last event that is in blocks already  3 last event of these blocks
--       4 nonce of that event's frame  5 time to live of the view, s
--       6 when a connection is forgotten, ms  7 when to look again, ms
--       8 connections that are kept in any case
--       … blocks, each with its last event before it
-- Returns 1, or 0 if the log is not what the caller has read.
--@include stored
local prefix = string.match(KEYS[1], '^.-}:')
local m = redis.call('HMGET', KEYS[1], 'seq', 'snap', 'own', 'view', 'ctl', 'prn', 'was', 'hb', 'acc')
if not m[1] then
  redis.call('ZREM', prefix .. 'rest', ARGV[1])
  -- An earlier try may have got as far as that.
  return redis.call('EXISTS', prefix .. 'z:' .. ARGV[1])
end
-- An earlier try of this very call may have got as far as the blocks.
local again = #ARGV > 8 and m[2] == ARGV[3]
if (m[2] or '0') ~= ARGV[2] and not again then
  -- An earlier try may have left frames whose events are in blocks by now.
  redis.call('XTRIM', KEYS[2], 'MINID', string.format('%d-0', tonumber(m[2] or '0') + 1))
  return 0
end
if #ARGV > 8 then
  if not again then
    local entry = redis.call('XRANGE', KEYS[2], ARGV[3] .. '-0', ARGV[3] .. '-0')
    if not entry[1] or string.sub(entry[1][2][2], 1, 4) ~= ARGV[4] then return 0 end
    -- What an earlier try has left there is not part of it yet.
    local snap, tail = tonumber(ARGV[2]), redis.call('LINDEX', KEYS[3], -1)
    while tail and tonumber(string.match(tail, '^%d+')) > snap do
      redis.call('RPOP', KEYS[3])
      tail = redis.call('LINDEX', KEYS[3], -1)
    end
    local bytes = tonumber(m[8] or '0')
    for at = 9, #ARGV do
      redis.call('RPUSH', KEYS[3], ARGV[at])
      bytes = bytes + #ARGV[at]
    end
    redis.call('HSET', KEYS[1], 'snap', ARGV[3], 'hb', string.format('%d', bytes))
  end
  if m[1] == ARGV[3] then
    redis.call('DEL', KEYS[2])
  else
    redis.call('XTRIM', KEYS[2], 'MINID', string.format('%d-0', tonumber(ARGV[3]) + 1))
  end
end
-- There is more; the caller goes on, or whoever comes next.
if m[1] ~= ARGV[3] then return 1 end
-- All of the log is in blocks now.
redis.call('HSET', KEYS[1], 'eb', '0')
local principal = m[6] or m[7] or m[9]
if principal then account(prefix, principal, ARGV[1], weigh(KEYS[1])) end
-- One that is held or has work rests again later. One that was deleted is not kept.
if m[3] ~= '' or redis.call('HLEN', KEYS[5]) > 0 or not m[6] then
  redis.call('ZREM', prefix .. 'rest', ARGV[1])
  return 1
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZADD', prefix .. 'idle', now, ARGV[1])
if m[4] and m[4] ~= '' then redis.call('EXPIRE', prefix .. 'v:' .. m[4], ARGV[5]) end

-- Connections of long ago. Most sessions have few; the time they were last seen at is noted only
-- when there are more.
local listens = false
for _, value in ipairs(redis.call('HVALS', KEYS[4])) do
  local expires = string.match(value, '^%S+ (%d+)$')
  -- A gateway that was held up for a while may still have its stream.
  listens = listens or expires and tonumber(expires) > now - 60000
end
if redis.call('HLEN', KEYS[4]) > tonumber(ARGV[8]) then
  local fields, seen = redis.call('HGETALL', KEYS[4]), {}
  for at = 1, #fields, 2 do
    local kind, connection = string.match(fields[at], '^(%a):(.*)$')
    seen[connection] = seen[connection] or false
    if kind == 's' then seen[connection] = tonumber(string.match(fields[at + 1], ' (%d+)$')) end
  end
  for connection, last in pairs(seen) do
    if not last then
      redis.call('HSET', KEYS[4], 's:' .. connection, string.format('- %d', now))
    elseif last < now - tonumber(ARGV[6]) and connection ~= m[5] then
      for _, kind in ipairs({ 's:', 't:', 'b:', 'w:', 'r:', 'd:', 'l:' }) do
        redis.call('HDEL', KEYS[4], kind .. connection)
      end
    end
  end
end

--@include freeze
if listens then
  -- Later, then.
  redis.call('ZADD', prefix .. 'rest', now + tonumber(ARGV[7]), ARGV[1])
else
  freeze(prefix, ARGV[1])
  redis.call('ZREM', prefix .. 'rest', ARGV[1])
end
return 1
