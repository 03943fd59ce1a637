#!lua flags=allow-oom
-- Keeps or ends the registration of a session stream and records what was written.
-- Rewrites what is there, so it may even when Redis is full.
-- KEYS  1 parties
-- ARGV  1 connection  2 holder  3 written cursor or ''  4 time to live, ms; 0 ends it
-- Returns 0 if another holder has the stream, else 1.
local m = redis.call('HMGET', KEYS[1], 's:' .. ARGV[1], 'b:' .. ARGV[1])
local held = m[1]
if m[2] == ARGV[2] then
  -- The next holder begins where this one has ended.
  if ARGV[3] ~= '' then redis.call('HSET', KEYS[1], 't:' .. ARGV[1], ARGV[3]) end
  if ARGV[4] == '0' then redis.call('HDEL', KEYS[1], 'b:' .. ARGV[1]) end
end
if not held then return 1 end
if string.match(held, '^(%S+) ') ~= ARGV[2] then return 0 end
if ARGV[3] ~= '' then
  redis.call('HSET', KEYS[1], 't:' .. ARGV[1], ARGV[3])
  redis.call('HDEL', KEYS[1], 'b:' .. ARGV[1])
end
if ARGV[4] == '0' then
  -- A session that rests may have waited for this.
  local prefix, session = string.match(KEYS[1], '^(.-}:)p:(.*)$')
  local time = redis.call('TIME')
  redis.call('ZADD', prefix .. 'rest', 'XX', time[1] * 1000 + math.floor(time[2] / 1000), session)
  redis.call('HDEL', KEYS[1], 's:' .. ARGV[1])
else
  local time = redis.call('TIME')
  local expires = time[1] * 1000 + math.floor(time[2] / 1000) + tonumber(ARGV[4])
  redis.call('HSET', KEYS[1], 's:' .. ARGV[1], ARGV[2] .. ' ' .. string.format('%d', expires))
end
return 1
