-- Puts a command into the inbox, once per key, and wakes whoever should look.
-- KEYS  1 session  2 inbox  3 parties
-- ARGV  1 session id  2 principal  3 connection  4 idempotency key or ''  5 fingerprint
--       6 command head  7 command message  8 one-shot  9 watched  10 has an answer
--       11 urgent  12 inbox limit  13 keys to remember  14 inbox limit in bytes
--       15 reaches a closed session  16 is about another request  17 that one's key
--       18 'a' takes anything, 'w' only if the session has work, 'r' only repetitions
-- Returns {'notfound'} {'conflict'} {'closed'} {'barred'} {'full'} {'unwatched', head}
--         {'accepted' or 'joined', number, head, via}
--@include thaw
local m = fields_of('prn', 'seq', 'cseq', 'own', 'exp', 'wk', 'ag', 'cn', 'known', 'cb', 'keys', 'ctl', 'shut')
if not m[1] or m[1] ~= ARGV[2] then return { 'notfound' } end
local known = m[9]
if ARGV[4] ~= '' then
  local from = string.find(known, ARGV[4] .. ' ', 1, true)
  if from then
    local fingerprint, number, head, via = string.match(known, '^%S+ (%x+) (%d+) (%d+) (%a)\n', from)
    if fingerprint ~= ARGV[5] then return { 'conflict' } end
    return { 'joined', number, head, via }
  end
end
if ARGV[16] == '1' and not string.find('\n' .. known, '\n' .. ARGV[17] .. ' ', 1, true) then
  return { 'notfound' }
end
if m[13] and ARGV[15] ~= '1' then return { 'closed' } end
if ARGV[18] == 'r' or ARGV[18] == 'w' and m[4] == '' and m[8] == '0' then return { 'barred' } end
-- What ends things gets through to a session that is full of prompts, within reason.
local waiting, bytes = tonumber(m[8]), tonumber(m[10]) + #ARGV[7]
local room = ARGV[11] == '1' and 2 or 1
if waiting >= room * tonumber(ARGV[12]) or waiting > 0 and bytes > room * tonumber(ARGV[14]) then
  return { 'full' }
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
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
local number = string.format('%d', tonumber(m[3]) + 1)
local request = ARGV[4] .. ' ' .. ARGV[5] .. ' ' .. number .. ' ' .. m[2] .. ' '
local line = request .. via .. '\n'
-- Who prompts is in control from here on; the entry tells if somebody else was.
local kind, controller = string.match(ARGV[6], '^[^\n]*'), m[12]
if kind == 'prompt' then controller = ARGV[3] end
local taken = controller ~= m[12] and 'k ' or ''
redis.call('HSET', KEYS[2], number, request .. taken .. via .. '\n' .. ARGV[6] .. '\n' .. ARGV[7])
local keys = tonumber(m[11])
if ARGV[4] ~= '' then
  -- The oldest key that nobody waits under makes room for the new one; nearly always the first.
  local at, full = 1, keys >= tonumber(ARGV[13])
  while full do
    local old, after = string.match(known, '^%S+ %x+ (%d+) %d+ %a\n()', at)
    if not old then break end
    if waiting == 0 or redis.call('HEXISTS', KEYS[2], old) == 0 then
      known = string.sub(known, 1, at - 1) .. string.sub(known, after)
      keys = keys - 1
      break
    end
    at = after
  end
  known, keys = known .. line, keys + 1
end
-- As text: Redis takes its time to turn a number of Lua into one.
redis.call('HSET', KEYS[1], 'cseq', number, 'cn', string.format('%d', waiting + 1),
  'cb', string.format('%d', bytes), 'known', known, 'keys', string.format('%d', keys),
  'ctl', controller or '')
if kind == 'close' then redis.call('HSET', KEYS[1], 'shut', '1') end
local prefix = string.match(KEYS[1], '^.-}:')
if m[4] ~= '' and tonumber(m[5]) > now then
  redis.call('SPUBLISH', prefix .. 'o:' .. m[6], 'I' .. ARGV[1])
else
  redis.call('ZADD', prefix .. 'due:' .. m[7], 'NX', string.format('%d', now), ARGV[1])
  redis.call('SPUBLISH', prefix .. 'w:' .. m[7], 'R' .. ARGV[1])
end
return { 'accepted', number, m[2], via }
