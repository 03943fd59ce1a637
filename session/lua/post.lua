-- Appends one frame of one event to a connection's outbox, once per key.
-- KEYS  1 connection  2 outbox
-- ARGV  1 connection id  2 idempotency key or ''  3 fingerprint  4 frame, or '' to ask only for room
--       5 keys to remember  6 time to live of the connection, s  7 the session that it says to watch, or ''
--       8 what the outbox may weigh  9 bytes and 10 entries of its window  11 entries that leave it at once
--       12 sessions that may be watched
-- Returns {'new'} {'conflict'} {'full'} {'room'} {'known', number, frame} {'delivered', session or ''}
--@include trim
local named = ARGV[2] ~= ''
local m = redis.call('HMGET', KEYS[1], 'ob', 'dlv', 'trim', named and 'i:' .. ARGV[2] or 'seq')
if named and m[4] then
  local fingerprint, number, session = string.match(m[4], '^(%x+) (%d+) ?(.*)$')
  if fingerprint ~= ARGV[3] then return { 'conflict' } end
  if tonumber(number) <= tonumber(m[3] or '0') then return { 'delivered', session } end
  local entry = redis.call('XRANGE', KEYS[2], number .. '-0', number .. '-0')
  if entry[1] then return { 'known', number, entry[1][2][2] } end
end
local bytes, weight, most = tonumber(m[1] or '0'), #ARGV[4] + ENTRY, tonumber(ARGV[8])
local function is_full() return bytes > 0 and bytes + weight > most end
if is_full() then
  bytes = trim(KEYS[1], KEYS[2], tonumber(m[2] or '0'), tonumber(ARGV[9]), tonumber(ARGV[10]), ARGV[11],
    tonumber(ARGV[12]))
  if is_full() then return { 'full' } end
end
if ARGV[4] == '' then return { 'room' } end
local number = redis.call('HINCRBY', KEYS[1], 'seq', 1)
local text = string.format('%d', number)
redis.call('HSET', KEYS[1], 'ob', bytes + weight)
redis.call('XADD', KEYS[2], text .. '-0', 'd', ARGV[4])
if named then
  local line = ARGV[3] .. ' ' .. text .. ' ' .. ARGV[7]
  redis.call('HSET', KEYS[1], 'i:' .. ARGV[2], line, '#' .. redis.call('HINCRBY', KEYS[1], 'keys', 1), ARGV[2])
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
