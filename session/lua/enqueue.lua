-- Puts a command into the inbox, once per key, and wakes whoever should look.
-- KEYS  1 session  2 inbox  3 parties
-- ARGV  1 session id  2 principal  3 connection  4 idempotency key  5 fingerprint
--       6 command head  7 command message  8 one-shot  9 watched  10 has an answer
--       11 urgent  12 inbox limit  13 keys to remember
-- Returns {'notfound'} {'conflict'} {'full'} {'unwatched', head}
--         {'accepted' or 'joined', number, head, via}
local m = redis.call('HMGET', KEYS[1], 'prn', 'seq', 'cseq', 'own', 'exp', 'wk', 'ag', 'cn', 'known')
if not m[1] or m[1] ~= ARGV[2] then return { 'notfound' } end
local waiting = tonumber(m[8])

-- The last keys are kept with the session; those of commands that still wait, with the commands.
local function recall(text)
  local from = string.find(text, ARGV[4] .. ' ', 1, true)
  if not from then return end
  local fingerprint, number, head, via = string.match(text, '^%S+ (%x+) (%d+) (%d+) (%a)\n', from)
  if fingerprint ~= ARGV[5] then return { 'conflict' } end
  return { 'joined', number, head, via }
end
local known = recall(m[9])
if known then return known end
if waiting > 0 and tonumber(m[3]) > tonumber(ARGV[13]) then
  for _, entry in ipairs(redis.call('HVALS', KEYS[2])) do
    known = recall(string.match(entry, '^.-\n'))
    if known then return known end
  end
end

if ARGV[11] == '0' and waiting >= tonumber(ARGV[12]) then return { 'full' } end
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
local line = ARGV[4] .. ' ' .. ARGV[5] .. ' ' .. number .. ' ' .. m[2] .. ' ' .. via .. '\n'
local lines = m[9]
if tonumber(m[3]) >= tonumber(ARGV[13]) then lines = string.match(lines, '^.-\n(.*)$') end
redis.call('HSET', KEYS[2], number, line .. ARGV[6] .. '\n' .. ARGV[7])
redis.call('HSET', KEYS[1], 'cseq', number, 'cn', waiting + 1, 'known', lines .. line)
local prefix = string.match(KEYS[1], '^.-}:')
if m[4] ~= '' and tonumber(m[5]) > now then
  redis.call('SPUBLISH', prefix .. 'o:' .. m[6], 'I' .. ARGV[1])
else
  redis.call('ZADD', prefix .. 'due:' .. m[7], 'NX', now, ARGV[1])
  redis.call('SPUBLISH', prefix .. 'w:' .. m[7], 'R' .. ARGV[1])
end
return { 'accepted', number, m[2], via }
