-- Creates a session with its first command in the inbox and its creator attached.
-- KEYS  1 session  2 inbox  3 parties
-- ARGV  1 session id  2 principal  3 agent  4 cwd  5 params  6 creator
--       7 idempotency key  8 fingerprint  9 via  10 command head  11 command message  12 directories or ''
-- Returns nothing; an id that exists is left alone.
--@include lists
local prefix = string.match(KEYS[1], '^.-}:')
if redis.call('EXISTS', KEYS[1], prefix .. 'z:' .. ARGV[1]) > 0 then return end
local known = ARGV[7] .. ' ' .. ARGV[8] .. ' 1 0 ' .. ARGV[9] .. '\n'
redis.call('HSET', KEYS[1],
  'prn', ARGV[2], 'ag', ARGV[3], 'cwd', ARGV[4], 'params', ARGV[5], 'ctl', ARGV[6],
  'own', '', 'exp', '0', 'seq', '0', 'cseq', '1', 'cn', '1', 'cb', #ARGV[11], 'known', known, 'keys', '1')
redis.call('HSET', KEYS[3], 'r:' .. ARGV[6], '1c', 'w:' .. ARGV[6], '1')
redis.call('HSET', KEYS[2], '1', known .. ARGV[10] .. '\n' .. ARGV[11])
if ARGV[12] ~= '' then redis.call('HSET', KEYS[1], 'dirs', ARGV[12]) end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
list(prefix, ARGV[1], ARGV[2], ARGV[4], now)
redis.call('ZADD', prefix .. 'due:' .. ARGV[3], now, ARGV[1])
redis.call('SPUBLISH', prefix .. 'w:' .. ARGV[3], 'R' .. ARGV[1])
