-- Appends one frame of one event to a connection's outbox, once per key.
-- KEYS  1 connection  2 outbox
-- ARGV  1 connection id  2 idempotency key or ''  3 fingerprint  4 frame  5 keys to remember
--       6 time to live of the connection, s
-- Returns {'new'} {'conflict'} {'known', number, frame}
local named = ARGV[2] ~= ''
local known = named and redis.call('HGET', KEYS[1], 'i:' .. ARGV[2])
if known then
  local fingerprint, number = string.match(known, '^(%x+) (%d+)$')
  if fingerprint ~= ARGV[3] then return { 'conflict' } end
  local entry = redis.call('XRANGE', KEYS[2], number .. '-0', number .. '-0')
  if entry[1] then return { 'known', number, entry[1][2][2] } end
end
local number = redis.call('HINCRBY', KEYS[1], 'seq', 1)
local text = string.format('%d', number)
redis.call('XADD', KEYS[2], text .. '-0', 'd', ARGV[4])
if named then
  redis.call('HSET', KEYS[1], 'i:' .. ARGV[2], ARGV[3] .. ' ' .. text, '#' .. redis.call('HINCRBY', KEYS[1], 'keys', 1), ARGV[2])
  local oldest = redis.call('HGET', KEYS[1], 'keys') - tonumber(ARGV[5])
  local field = '#' .. string.format('%d', oldest)
  local key = redis.call('HGET', KEYS[1], field)
  if key then redis.call('HDEL', KEYS[1], field, 'i:' .. key) end
end
redis.call('EXPIRE', KEYS[1], ARGV[6])
redis.call('EXPIRE', KEYS[2], ARGV[6])
local prefix = string.match(KEYS[1], '^.-}:')
redis.call('SPUBLISH', prefix .. 'y:' .. ARGV[1], 'F' .. text .. '\n' .. ARGV[4])
return { 'new' }
