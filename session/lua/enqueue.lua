-- Puts a command into the inbox, once per key, and wakes whoever should look.
-- KEYS  1 session  2 inbox  3 idempotency  4 parties
-- ARGV  1 session id  2 principal  3 connection  4 idempotency key  5 fingerprint
--       6 command head  7 command message  8 one-shot  9 watched  10 has an answer
--       11 urgent  12 inbox limit  13 keys to remember
-- Returns {'notfound'} {'conflict'} {'full'} {'unwatched', head}
--         {'accepted' or 'joined', number, head, via}
local m = redis.call('HMGET', KEYS[1], 'prn', 'seq', 'cseq', 'own', 'exp', 'wk', 'ag')
if not m[1] or m[1] ~= ARGV[2] then return { 'notfound' } end
local known = redis.call('HGET', KEYS[3], ARGV[4])
if known then
  local fingerprint, number, head, via = string.match(known, '^(%x+) (%d+) (%d+) (%a)$')
  if fingerprint ~= ARGV[5] then return { 'conflict' } end
  return { 'joined', number, head, via }
end
if ARGV[11] == '0' and redis.call('XLEN', KEYS[2]) >= tonumber(ARGV[12]) then return { 'full' } end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local via = 'c'
if ARGV[8] == '1' then
  via = 'o'
elseif ARGV[10] == '1' then
  local party = redis.call('HMGET', KEYS[4], 's:' .. ARGV[3], 'w:' .. ARGV[3])
  local expires = party[1] and string.match(party[1], ' (%d+)$')
  if ARGV[9] == '1' and not party[2] then redis.call('HSET', KEYS[4], 'w:' .. ARGV[3], '1') end
  if expires and tonumber(expires) > now then
    via = 's'
  elseif ARGV[9] ~= '1' and not party[2] then
    return { 'unwatched', m[2] }
  end
end
local number = tonumber(m[3]) + 1
local text = string.format('%d', number)
redis.call('XADD', KEYS[2], text .. '-0', 'v', via, 'h', ARGV[6], 'd', ARGV[7])
redis.call('HSET', KEYS[1], 'cseq', text)
redis.call('HSET', KEYS[3], ARGV[4], ARGV[5] .. ' ' .. text .. ' ' .. m[2] .. ' ' .. via, '#' .. text, ARGV[4])
local oldest = number - tonumber(ARGV[13])
if oldest > 0 then
  local field = '#' .. string.format('%d', oldest)
  local key = redis.call('HGET', KEYS[3], field)
  if key then redis.call('HDEL', KEYS[3], field, key) end
end
local prefix = string.match(KEYS[1], '^.-}:')
if m[4] ~= '' and tonumber(m[5]) > now then
  redis.call('SPUBLISH', prefix .. 'o:' .. m[6], 'I' .. ARGV[1])
else
  redis.call('ZADD', prefix .. 'rq:' .. m[7], 'NX', now, ARGV[1])
  redis.call('SPUBLISH', prefix .. 'w:' .. m[7], 'R' .. ARGV[1])
end
return { 'accepted', text, m[2], via }
