-- Begins to take in a session from elsewhere: held by the caller, for nobody else to see, and forgotten like
-- a deleted one unless it is published.
-- KEYS  1 session
-- ARGV  1 session id  2 principal  3 agent  4 cwd  5 params  6 MCP servers are given  7 these
--       8 directories are given  9 these  10 state  11 view  12 title  13 usage  14 bound  15 updated, ms
--       16 token  17 worker  18 lease, ms
-- Returns 1, or 0 if the id is taken.
local prefix = string.match(KEYS[1], '^.-}:')
if redis.call('EXISTS', KEYS[1], prefix .. 'z:' .. ARGV[1]) > 0 then
  local m = redis.call('HMGET', KEYS[1], 'heir', 'own')
  return m[1] and m[2] == ARGV[16] and 1 or 0
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local view = ''
if ARGV[11] ~= '' then
  -- See view.lua.
  view = redis.sha1hex(ARGV[11])
  redis.call('SET', prefix .. 'v:' .. view, ARGV[11], 'EX', 2592000)
end
local fields = {
  'heir', ARGV[2], 'upd', ARGV[15], 'ag', ARGV[3], 'cwd', ARGV[4], 'params', ARGV[5], 'ctl', '',
  'state', ARGV[10], 'view', view, 'vb', #ARGV[11], 'title', ARGV[12], 'usage', ARGV[13], 'bound', ARGV[14],
  'own', ARGV[16], 'wk', ARGV[17], 'exp', string.format('%d', now + tonumber(ARGV[18])),
  'seq', '0', 'shown', '', 'cseq', '0', 'cb', '0', 'known', '',
}
local function set(name, given, value)
  if given == '1' then
    fields[#fields + 1] = name
    fields[#fields + 1] = value
  end
end
set('mcp', ARGV[6], ARGV[7])
set('dirs', ARGV[8], ARGV[9])
redis.call('ZADD', prefix .. 'gone', now, ARGV[1])
redis.call('HSET', KEYS[1], unpack(fields))
return 1
