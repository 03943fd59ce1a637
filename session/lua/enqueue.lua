-- Puts a command into the inbox, once per key, and wakes whoever should look.
-- KEYS  1 session  2 inbox  3 parties
-- ARGV  1 session id  2 principal  3 connection  4 idempotency key, 12 bytes, or ''  5 fingerprint, 6 bytes
--       6 command head  7 command message  8 one-shot  9 watched  10 has an answer
--       11 urgent  12 inbox limit  13 keys to remember per owner  14 inbox limit in bytes
--       15 reaches a closed session  16 is about another request  17 that one's key
--       18 'a' takes anything, 'w' only if the session has work, 'r' only repetitions, a number
--          only if the session rests and its log ends with that event
--       19 nonce of the command, 4 bytes  20 owner of the key, 2 bytes  21 keys to remember in all
--       22 nonces to remember
-- Returns {'notfound'} {'conflict'} {'closed'} {'barred'} {'full'} {'unwatched', head}
--         {'accepted' or 'joined', command, head, via}
-- The entry is written first and counts from the HSET on that remembers its key.
--@include thaw
--@include known
--@include hand_over
local m = fields_of('prn', 'seq', 'cseq', 'own', 'exp', 'wk', 'ag', 'known', 'cb', 'ctl', 'shut', 'heard')
if not m[1] or m[1] ~= ARGV[2] then return { 'notfound' } end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local prefix = string.match(KEYS[1], '^.-}:')
-- With the command, if its holder takes that from here: earlier versions do not, nor does one that is not there.
local function tell_holder(name, entry)
  local told = 0
  if entry and #entry <= 16384 then
    told = redis.call('SPUBLISH', prefix .. 'o:' .. m[6] .. '+', 'C' .. ARGV[1] .. '\n' .. name .. '\n' .. entry)
  end
  if told == 0 then redis.call('SPUBLISH', prefix .. 'o:' .. m[6], 'I' .. ARGV[1]) end
end
local function wake(name, entry)
  if m[4] ~= '' and tonumber(m[5]) > now then
    tell_holder(name, entry)
  else
    -- It waits since the first of its commands came; a lease that has ended may have left a later time.
    redis.call('ZADD', prefix .. 'due:' .. m[7], 'LT', string.format('%d', now), ARGV[1])
    hand_over(prefix, m[7], ARGV[1])
  end
end
-- The same step again, whose reply nobody saw: it may not have got as far as waking somebody.
local function repeated(name, head, via)
  if redis.call('HEXISTS', KEYS[2], name) == 1 then wake() end
  return { 'accepted', name, head, via }
end
local known, heard, nonce = m[8], m[12] or '', hex(ARGV[19])
-- As earlier versions wrote them.
if #known % SIZE ~= 0 then known = '' end
if ARGV[4] ~= '' then
  local before = remembered(known, ARGV[4])
  if before then
    if before.fingerprint ~= ARGV[5] then return { 'conflict' } end
    local name = name_of(before.number, before.nonce)
    if before.nonce == ARGV[19] then return repeated(name, before.head, before.via) end
    return { 'joined', name, before.head, before.via }
  end
else
  local name = string.match(heard, '(%d+%-' .. nonce .. ') ')
  if name then return repeated(name, m[2], 'c') end
  -- Answers are not noted: a question takes one only. But nearly always it is the last command that is repeated.
  local last = m[3] .. '-' .. nonce
  if redis.call('HEXISTS', KEYS[2], last) == 1 then return repeated(last, m[2], 'c') end
end
if ARGV[16] == '1' and not remembered(known, ARGV[17]) then return { 'notfound' } end
if m[11] and ARGV[15] ~= '1' then return { 'closed' } end
local number = string.format('%d', tonumber(m[3]) + 1)
local name = number .. '-' .. nonce
-- An earlier try of this step may have left its entry.
local waiting = redis.call('HLEN', KEYS[2])
if waiting > 0 then waiting = waiting - redis.call('HEXISTS', KEYS[2], name) end
-- What runs is in the inbox until its end. One that only stays with its last worker has no work.
if ARGV[18] == 'r' or ARGV[18] == 'w' and waiting == 0 then return { 'barred' } end
if tonumber(ARGV[18]) and (waiting > 0 or ARGV[18] ~= m[2]) then return { 'barred' } end
-- What ends things gets through to a session that is full of prompts, within reason. The bytes are counted again
-- from nothing once nothing waits.
local bytes = (waiting == 0 and 0 or tonumber(m[9])) + #ARGV[7]
local room = ARGV[11] == '1' and 2 or 1
if waiting >= room * tonumber(ARGV[12]) or waiting > 0 and bytes > room * tonumber(ARGV[14]) then
  return { 'full' }
end
local via = 'c'
if ARGV[8] == '1' then
  via = 'o'
elseif ARGV[10] == '1' then
  local party = redis.call('HMGET', KEYS[3], 's:' .. ARGV[3], 'w:' .. ARGV[3])
  local expires = party[1] and string.match(party[1], ' (%d+)$')
  if ARGV[9] == '1' and not party[2] then redis.call('HSET', KEYS[3], 'w:' .. ARGV[3], '1') end
  if expires and tonumber(expires) > now then
    via = 's'
  elseif ARGV[9] ~= '1' and not party[2] then
    return { 'unwatched', m[2] }
  end
end
-- Who prompts is in control from here on; the entry tells if somebody else was.
local kind, controller = string.match(ARGV[6], '^[^\n]*'), m[10]
if kind == 'prompt' then controller = ARGV[3] end
local taken = controller ~= m[10] and 'k ' or ''
local entry = ' ' .. taken .. via .. '\n' .. ARGV[6] .. '\n' .. ARGV[7]
redis.call('HSET', KEYS[2], name, entry)
-- As text: Redis takes its time to turn a number of Lua into one.
local fields = { 'cseq', number, 'cb', string.format('%d', bytes), 'ctl', controller or '' }
local function set(field, value)
  fields[#fields + 1] = field
  fields[#fields + 1] = value
end
if ARGV[4] ~= '' then
  -- The oldest key of the same owner that nobody waits under makes room for the new one, or the oldest of all.
  local limit, most = tonumber(ARGV[13]) * SIZE, tonumber(ARGV[21]) * SIZE
  local function waits(old) return waiting > 0 and redis.call('HEXISTS', KEYS[2], old) == 1 end
  if #known >= limit and count_of(known, ARGV[20]) >= tonumber(ARGV[13]) then
    known = forget_oldest(known, ARGV[20], waits)
  end
  if #known >= most then known = forget_oldest(known, nil, waits) end
  set('known', remember(known, ARGV[4], ARGV[5], via, ARGV[20], ARGV[19], tonumber(number), tonumber(m[2])))
elseif kind ~= 'answer' then
  -- Nobody repeats it by its key, but its own step may be repeated.
  local names = tonumber(ARGV[22])
  heard = heard .. name .. ' '
  local _, count = string.gsub(heard, ' ', ' ')
  if count > names then heard = string.gsub(heard, '^%S+ ', '', 1) end
  set('heard', heard)
end
-- Earlier versions did not write down who.
if kind == 'close' then set('shut', ARGV[3]) end
redis.call('HSET', KEYS[1], unpack(fields))
wake(name, entry)
return { 'accepted', name, m[2], via }
