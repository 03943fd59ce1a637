-- Makes a child that shares its parent's log up to a point. Nothing is copied but a few fields.
-- KEYS  1 parent  2 child  3 the child's parties  4 the child's lineage  5 the parent's forks
-- ARGV  1 parent id  2 child id  3 principal  4 connection  5 cwd  6 most ancestors
--       7 MCP servers are given  8 these  9 directories are given  10 these
--       11 cut or ''  12 the view there  13 inherit what is bound  14 not if it is closed
-- Returns {'notfound'} {'closed'} {'nosuchcut'} {'toodeep'} {'done', head, view}
--@include view
--@include peek
--@include lineage
--@include lists
--@include stored
local prefix = string.match(KEYS[1], '^.-}:')
local there = peek(prefix, ARGV[2], 'seq', 'prn')
if there[1] then
  local cut, view = string.match(redis.call('GET', KEYS[4]) or '', '^%d+ (%d+) %S+ (%x*)')
  if there[2] ~= ARGV[3] or not cut then return { 'notfound' } end
  -- An earlier try of this very call may not have got as far as that.
  if redis.call('EXISTS', KEYS[2]) == 1 then account(prefix, ARGV[3], ARGV[2], weigh(KEYS[2])) end
  return { 'done', cut, view_of(view) }
end
local p = peek(prefix, ARGV[1], 'seq', 'prn', 'ag', 'params', 'title', 'usage', 'mcp', 'dirs', 'bound',
  'run', 'began', 'state', 'view', 'bstate', 'bview', 'shut', 'vb', 'shown')
if not p[2] or p[2] ~= ARGV[3] then return { 'notfound' } end
if ARGV[14] == '1' and p[16] then return { 'closed' } end
local head = tonumber(p[1])
local runs = p[10] and p[10] ~= ''
if runs then head = tonumber(p[11]) - 1 end
local cut, state, view, shown = head, '', nil, p[17]
if ARGV[11] == '' then
  state = runs and p[14] or p[12] or ''
  view = runs and p[15] or p[13] or ''
else
  cut = tonumber(ARGV[11])
  if cut > head then return { 'nosuchcut' } end
end

local depth, lines = continued(prefix, ARGV[1], cut)
if depth > tonumber(ARGV[6]) then return { 'toodeep' } end

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if not view then
  view = ''
  if ARGV[12] ~= '' then
    view = redis.sha1hex(ARGV[12])
    redis.call('SET', prefix .. 'v:' .. view, ARGV[12], 'EX', 2592000)
    shown = #ARGV[12]
  end
end
local text = string.format('%d', cut)
local fields = {
  'prn', ARGV[3], 'ag', p[3], 'cwd', ARGV[5], 'params', p[4], 'ctl', ARGV[4], 'state', state, 'view', view,
  'own', '', 'exp', '0', 'seq', text, 'snap', text, 'cseq', '0', 'cb', '0', 'known', '',
}
local function set(name, value)
  if value then
    fields[#fields + 1] = name
    fields[#fields + 1] = value
  end
end
if p[18] then
  local line = string.match(p[18], '^%-?')
  for letter, seq in string.gmatch(p[18], '(%a)(%d+) ') do
    if tonumber(seq) <= cut then line = line .. letter .. seq .. ' ' end
  end
  set('shown', line)
end
set('title', p[5])
set('vb', shown)
set('usage', p[6])
set('mcp', ARGV[7] == '1' and ARGV[8] or p[7])
set('dirs', ARGV[9] == '1' and ARGV[10] or p[8])
if ARGV[13] == '1' then set('bound', p[9]) end
-- Not watching yet: whoever asks something of it first is told to see to that.
redis.call('HSET', KEYS[3], 'r:' .. ARGV[4], string.format('%dc', cut + 1))
redis.call('SET', KEYS[4],
  string.format('%d %d %s %s', depth, cut, ARGV[1], view) .. lines)
redis.call('SADD', KEYS[5], ARGV[2])
redis.call('ZADD', prefix .. 'rest', now, ARGV[2])
list(prefix, ARGV[2], ARGV[3], ARGV[5], now)
-- Last: from here on the child is there, and nothing of this is done again.
redis.call('HSET', KEYS[2], unpack(fields))
-- Its own: the log that it shares is its parent's.
account(prefix, ARGV[3], ARGV[2], weigh(KEYS[2]))
return { 'done', text, view_of(view) }
