-- Takes a session that has work and no live lease, with everything needed to go on.
-- KEYS  1 session  2 inbox  3 due
-- ARGV  1 session id  2 agent  3 token  4 worker  5 lease, ms
-- Returns {} or {head, cwd, params, state, running command, its begin, stalls, MCP servers, directories, bound,
--         principal, inbox}
local m = redis.call('HMGET', KEYS[1], 'own', 'exp', 'ag', 'seq', 'cwd', 'params', 'state', 'run', 'began', 'cn', 'stall',
  'mcp', 'dirs', 'bound', 'heir', 'prn')
if not m[1] then
  redis.call('ZREM', KEYS[3], ARGV[1])
  return {}
end
if m[3] ~= ARGV[2] then return {} end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if m[1] ~= '' and m[1] ~= ARGV[3] and tonumber(m[2]) > now then return {} end
-- Nobody else goes on with what somebody has not finished taking in.
if m[1] == '' and m[10] == '0' or m[15] and m[1] ~= ARGV[3] then
  redis.call('ZREM', KEYS[3], ARGV[1])
  return {}
end
local expires = string.format('%d', now + tonumber(ARGV[5]))
redis.call('HSET', KEYS[1], 'own', ARGV[3], 'exp', expires, 'wk', ARGV[4])
-- Holders in a row that vanished without writing anything are counted: 'count head'.
local stalls = '0'
local count, head = string.match(m[11] or '', '^(%d+) (%d+)$')
if head == m[4] then stalls = count end
if m[1] ~= '' and m[1] ~= ARGV[3] then
  stalls = string.format('%d', stalls + 1)
  redis.call('HSET', KEYS[1], 'stall', stalls .. ' ' .. m[4])
end
redis.call('ZADD', KEYS[3], expires, ARGV[1])
return { m[4], m[5], m[6], m[7] or '', m[8] or '', m[9] or '', stalls,
  m[12], m[13], m[14] or '', m[16] or '', redis.call('HGETALL', KEYS[2]) }
