-- Creates a session with its first command in the inbox and its creator attached.
-- KEYS  1 session  2 inbox  3 parties
-- ARGV  1 session id  2 principal  3 agent  4 cwd  5 params  6 creator
--       7 idempotency key, 12 bytes  8 fingerprint, 6 bytes  9 via  10 command head  11 command message  12 directories or ''
--       13 the command's nonce, 4 bytes  14 owner of the key, 2 bytes
-- Returns nothing; an id that exists is left alone.
--@include lists
--@include known
--@include stored
--@include hand_over
local prefix = string.match(KEYS[1], '^.-}:')
local name = name_of(1, ARGV[13])
local time = redis.call('TIME')
local now = string.format('%d', time[1] * 1000 + math.floor(time[2] / 1000))
local function wake()
  redis.call('ZADD', prefix .. 'due:' .. ARGV[3], 'LT', now, ARGV[1])
  hand_over(prefix, ARGV[3], ARGV[1])
end
if redis.call('EXISTS', KEYS[1], prefix .. 'z:' .. ARGV[1]) > 0 then
  -- An earlier try of this very call may not have got further than that.
  if redis.call('HEXISTS', KEYS[2], name) == 1 then
    wake()
    account(prefix, ARGV[2], ARGV[1], weigh(KEYS[1]))
  end
  return
end
redis.call('HSET', KEYS[3], 'r:' .. ARGV[6], '1c', 'w:' .. ARGV[6], '1')
redis.call('HSET', KEYS[2], name, ' ' .. ARGV[9] .. '\n' .. ARGV[10] .. '\n' .. ARGV[11])
list(prefix, ARGV[1], ARGV[2], ARGV[4], now)
local fields = {
  'prn', ARGV[2], 'ag', ARGV[3], 'cwd', ARGV[4], 'params', ARGV[5], 'ctl', ARGV[6],
  'own', '', 'exp', '0', 'seq', '0', 'shown', '', 'cseq', '1', 'cb', #ARGV[11],
  'known', remember('', ARGV[7], ARGV[8], ARGV[9], ARGV[14], ARGV[13], 1, 0),
}
if ARGV[12] ~= '' then
  fields[#fields + 1] = 'dirs'
  fields[#fields + 1] = ARGV[12]
end
redis.call('HSET', KEYS[1], unpack(fields))
wake()
account(prefix, ARGV[2], ARGV[1], weigh(KEYS[1]))
