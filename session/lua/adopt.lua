-- Begins to take in a session from elsewhere: held by the caller, for nobody else to see, and forgotten like
-- a deleted one unless it is published.
-- It may share the beginning of another session's log.
-- KEYS  1 session; if it shares a log:  2 its lineage  3 the forks of the other session
-- ARGV  1 session id  2 principal  3 agent  4 cwd  5 params  6 MCP servers are given  7 these
--       8 directories are given  9 these  10 state  11 view  12 title  13 usage  14 bound  15 updated, ms
--       16 token  17 worker  18 lease, ms; if it shares a log:  19 the other session's id  20 the last event  21 most ancestors
-- Returns 1, or 0 if the id is taken or that log cannot be shared.
--@include peek
--@include lineage
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
local depth, lines
if ARGV[19] then
  local p = peek(prefix, ARGV[19], 'seq', 'prn', 'run', 'began')
  local upto = tonumber(ARGV[20])
  if not p[2] or p[2] ~= ARGV[2] then return 0 end
  if upto > (p[3] and p[3] ~= '' and tonumber(p[4]) - 1 or tonumber(p[1])) then return 0 end
  depth, lines = continued(prefix, ARGV[19], upto)
  if depth > tonumber(ARGV[21]) then return 0 end
  fields[#fields + 1], fields[#fields + 2] = 'snap', ARGV[20]
  for at = 1, #fields, 2 do
    if fields[at] == 'seq' then fields[at + 1] = ARGV[20] end
  end
end
local function set(name, given, value)
  if given == '1' then
    fields[#fields + 1] = name
    fields[#fields + 1] = value
  end
end
set('mcp', ARGV[6], ARGV[7])
set('dirs', ARGV[8], ARGV[9])
redis.call('ZADD', prefix .. 'gone', now, ARGV[1])
if depth then
  -- Before it is there: housekeeping finds by these what is to be forgotten with it.
  redis.call('SET', KEYS[2], string.format('%d %s %s %s', depth, ARGV[20], ARGV[19], view) .. lines)
  redis.call('SADD', KEYS[3], ARGV[1])
end
redis.call('HSET', KEYS[1], unpack(fields))
return 1
