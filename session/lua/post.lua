-- Appends one frame of one event to a connection's outbox, once per key.
-- KEYS  1 connection  2 outbox
-- ARGV  1 connection id  2 idempotency key or ''  3 fingerprint  4 frame, or '' to ask only for room
--       5 keys to remember  6 time to live of the connection, s  7 the session that it says to watch, or ''
--       8 what the outbox may weigh, without its positions, and these by themselves  9… its window, see trim
-- Returns {'new', number} {'conflict'} {'full'} {'room'} {'known', number, frame} {'delivered', session or ''}
--@include trim
local named = ARGV[2] ~= ''
local m = redis.call('HMGET', KEYS[1], 'ob', 'dlv', 'trim', 'i:' .. ARGV[2], 'seq', 'keys', 'pb')
if named and m[4] then
  local fingerprint, number, session = string.match(m[4], '^(%x+) (%d+) ?(.*)$')
  if fingerprint ~= ARGV[3] then return { 'conflict' } end
  if tonumber(number) <= tonumber(m[3] or '0') then return { 'delivered', session } end
  local entry = redis.call('XRANGE', KEYS[2], number .. '-0', number .. '-0')
  -- The frame has a nonce: if it is the same, so is the call, and nobody saw its reply.
  if entry[1] and entry[1][2][2] == ARGV[4] then return { 'new', number } end
  if entry[1] then return { 'known', number, entry[1][2][2] } end
elseif ARGV[4] ~= '' and m[5] then
  local entry = redis.call('XRANGE', KEYS[2], m[5] .. '-0', m[5] .. '-0')
  if entry[1] and entry[1][2][2] == ARGV[4] then return { 'new', m[5] } end
end
local bytes, weight, most = tonumber(m[1] or '0'), #ARGV[4] + ENTRY, tonumber(ARGV[8])
-- Nobody is refused because of positions, which gateways write for themselves; and these not because of anybody else.
local positions = math.min(tonumber(m[7] or '0'), bytes)
local has_positions = is_positions(ARGV[4])
local function is_full()
  local has = has_positions and positions or bytes - positions
  return has > 0 and has + weight > most
end
if is_full() then
  bytes, positions = trim(KEYS[1], KEYS[2], tonumber(m[2] or '0'), 9)
  if is_full() then return { 'full' } end
end
if ARGV[4] == '' then return { 'room' } end
-- The entry first, then, as one command, everything that makes it count: a try that fails between is repeated.
local text = string.format('%d', tonumber(m[5] or '0') + 1)
local added = redis.pcall('XADD', KEYS[2], text .. '-0', 'd', ARGV[4])
if type(added) == 'table' then
  if not string.find(added.err, 'equal or smaller', 1, true) then error(added) end
  local there = redis.call('XRANGE', KEYS[2], text .. '-0', text .. '-0')[1]
  if not there or there[2][2] ~= ARGV[4] then
    if m[5] then error(added) end
    -- Of a connection that was forgotten.
    redis.call('DEL', KEYS[2])
    redis.call('XADD', KEYS[2], text .. '-0', 'd', ARGV[4])
  end
end
local fields, oldest = { 'seq', text, 'ob', bytes + weight }, nil
if has_positions then
  fields[#fields + 1] = 'pb'
  fields[#fields + 1] = positions + weight
end
if named then
  local keys = tonumber(m[6] or '0') + 1
  local line = ARGV[3] .. ' ' .. text .. ' ' .. ARGV[7]
  for _, value in ipairs({ 'i:' .. ARGV[2], line, '#' .. keys, ARGV[2], 'keys', keys }) do fields[#fields + 1] = value end
  oldest = '#' .. string.format('%d', keys - tonumber(ARGV[5]))
end
local key = oldest and redis.call('HGET', KEYS[1], oldest)
if key then redis.call('HDEL', KEYS[1], oldest, 'i:' .. key) end
redis.call('HSET', KEYS[1], unpack(fields))
local prefix = string.match(KEYS[1], '^.-}:')
redis.call('SPUBLISH', prefix .. 'y:' .. ARGV[1], 'F' .. text .. '\n' .. ARGV[4])
redis.call('EXPIRE', KEYS[1], ARGV[6])
redis.call('EXPIRE', KEYS[2], ARGV[6])
return { 'new', text }
