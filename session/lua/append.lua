-- The one way to write a session's log: fenced, without holes, without repetition.
-- KEYS  1 session  2 log  3 inbox  4 parties
-- ARGV  1 session id  2 token  3 first number  4 how many events  5 frame  6 release
--       7 frames up to this size are published whole, empty if the caller publishes once replicas have them  8 number of acks  … acks
--       then pairs: a field of the session and its value, or
--       shown, more of its line (see settings_history.rs) /
--       begin, 'seq command connection via' / control, 'seq connection via' / end, 'seq connection' /
--       request, what to remember of one that is acknowledged, packed as below
-- Returns {'fenced'} {'gap', head} {'done', head, released}
-- What may be written twice is written first, then the frame and, as one command, everything that makes it
-- count; what is deleted comes last. So a try that fails halfway can be repeated, see `done` below.
-- Nearly always it is words in the middle of a turn, and nothing changes but the log.
--@include stored
--@include known
local plain = #ARGV == 8 and ARGV[6] == '0'
local m = plain and redis.call('HMGET', KEYS[1], 'own', 'seq', 'rel', 'eb')
  or redis.call('HMGET', KEYS[1], 'own', 'seq', 'rel', 'ag', 'run', 'heir', 'prn', 'cwd', 'eb', 'ae',
    'unc')
local head = tonumber(m[2] or '0')
local first, count, acks = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[8])
local last = first + count - 1
local function delete_acked()
  -- Lua takes some thousand arguments at a time.
  for at = 9, 8 + acks, 1000 do
    redis.call('HDEL', KEYS[3], unpack(ARGV, at, math.min(at + 999, 8 + acks)))
  end
end
local prefix = string.match(KEYS[1], '^.-}:')
local function settle()
  if not plain and m[7] then account(prefix, m[7], ARGV[1], weigh(KEYS[1])) end
end
if not m[1] or m[1] ~= ARGV[2] then
  if m[3] ~= ARGV[2] or last > head then return { 'fenced' } end
  delete_acked()
  -- Unless somebody else has it by now.
  if not plain and m[1] == '' and redis.call('HLEN', KEYS[3]) == 0 then
    redis.call('ZREM', prefix .. 'due:' .. m[4], ARGV[1])
  end
  settle()
  return { 'done', m[2], 1 }
end
if first <= head and last <= head then
  delete_acked()
  settle()
  return { 'done', m[2], 0 }
end
if first ~= head + 1 then return { 'gap', m[2] } end
local text = string.format('%d', last)
local stored = string.format('%d', tonumber(m[plain and 4 or 9] or '0') + #ARGV[5])
local function write()
  if count == 0 then return end
  local added = redis.pcall('XADD', KEYS[2], text .. '-0', 'd', ARGV[5])
  if type(added) == 'table' then
    -- An earlier try of the same append got this far.
    local there = redis.call('XRANGE', KEYS[2], text .. '-0', text .. '-0')[1]
    if not there or there[2][2] ~= ARGV[5] then error(added) end
  end
end
local function publish()
  if count == 0 or ARGV[7] == '' then return end
  local whole = #ARGV[5] <= tonumber(ARGV[7])
  redis.call('SPUBLISH', prefix .. 'n:' .. ARGV[1], whole and 'F' .. text .. '\n' .. ARGV[5] or 'G' .. text)
end
if plain then
  write()
  redis.call('HSET', KEYS[1], 'seq', text, 'eb', stored)
  publish()
  return { 'done', text, 0 }
end

-- Each field once, with its last value: however many turns an append has, they fit one HSET.
local fields, place = {}, {}
local function set(name, value)
  if not place[name] then
    place[name] = #fields + 1
    fields[place[name]] = name
  end
  fields[place[name] + 1] = value
end
set('seq', text)
if count > 0 then set('eb', stored) end
-- As long as replicas do not have these events, they are hidden from those who would show them, see confirm_events.
if count > 0 and ARGV[7] == '' then
  set('unc', (string.match(m[11] or '', '^%d+') or ARGV[3]) .. ' ' .. text)
end
-- What has come since the account was set: events, and what took the place of something else.
local accounted, replaced = tonumber(m[10] or ''), 0
local added = accounted and tonumber(stored) - accounted or LITTLE

-- Commands that are named in `done` do not wait any more, even if they are still there: whoever claims the session
-- next deletes them.
if acks > 0 then set('done', table.concat(ARGV, ' ', 9, 8 + acks)) end
local there = {}
for at = 9, 8 + acks do
  there[ARGV[at]] = there[ARGV[at]] or redis.call('HEXISTS', KEYS[3], ARGV[at])
end
local released = false
if ARGV[6] == '1' then
  local left = redis.call('HLEN', KEYS[3])
  for _, one in pairs(there) do left = left - one end
  released = left == 0
end

--@include switch
--@include lists
local routes, rerouted = {}, {}
local function reroute(connection, change)
  local route = routes[connection] or redis.call('HGET', KEYS[4], 'r:' .. connection) or ''
  routes[connection] = change(route)
  rerouted[connection] = rerouted[connection] or routes[connection] ~= route
end
-- A store that failed over may have lost that it has ever taken a request which its holder has answered since. Its
-- client may repeat it, and is to find the answer.
local known
local function remember_lost(request)
  local key, fingerprint, via, owner, nonce, number, most = struct.unpack('>c12c6c1c2c4I6I4', request)
  local name = name_of(number, nonce)
  if there[name] == 1 then return end
  known = known or redis.call('HGET', KEYS[1], 'known') or ''
  -- As earlier versions wrote them.
  if #known % SIZE ~= 0 then known = '' end
  if remembered(known, key) then return end
  if #known >= most * SIZE then known = forget_oldest(known, nil, function() return false end) end
  local before = m[5] == name and redis.call('HGET', KEYS[1], 'began') or first
  set('known', remember(known, key, fingerprint, via, owner, nonce, number, tonumber(before) - 1))
  known = fields[place.known + 1]
end
local run, ended, aside = m[5] or '', false, {}
-- What comes from elsewhere has happened long ago, to others.
local history = m[6] and { begin = true, control = true, ['end'] = true } or {}
for at = 9 + acks, #ARGV, 2 do
  local name, value = ARGV[at], ARGV[at + 1]
  if history[name] then
    -- The log has it.
  elseif name == 'begin' then
    local seq, command, connection, via = string.match(value, '^(%d+) (%S+) (%S+) (%a)$')
    reroute(connection, function(route) return switch(route, tonumber(seq), via) end)
    run = command
    set('run', run)
    set('began', seq)
    set('ctl', connection)
  elseif name == 'control' then
    local seq, connection, via = string.match(value, '^(%d+) (%S+) (%a)$')
    reroute(connection, function(route)
      return via ~= 'o' and attach(route, tonumber(seq), via) or route
    end)
    set('ctl', connection)
  elseif name == 'end' then
    local seq, connection = string.match(value, '^(%d+) (%S+)$')
    reroute(connection, function(route)
      -- One that never read in any other way: there may be one such for every request.
      if string.match(route, '^%d+o$') then return '' end
      local before = string.match(route, '(%a),%d+o$')
      return before and switch(route, tonumber(seq) + 1, before) or route
    end)
    run, ended = '', true
    set('run', run)
  elseif name == 'request' then
    remember_lost(value)
  elseif name == 'shown' then
    local line = (redis.call('HGET', KEYS[1], 'shown') or '-') .. value
    while #line > 512 do line = '-' .. string.match(line, ' (.*)$') end
    set('shown', line)
  elseif name == 'view' then
    -- See view.lua.
    local hash = redis.sha1hex(value)
    redis.call('SET', prefix .. 'v:' .. hash, value, 'EX', 2592000)
    set('view', hash)
    set('vb', #value)
    replaced = replaced + #value
    aside[#aside + 1] = 'view'
  else
    set(name, value)
    replaced = replaced + #value
    if name == 'state' then aside[#aside + 1] = name end
  end
end
-- A fork begins before the running turn: what that changes is kept aside as it was, once.
if run ~= '' and not ended then
  for _, name in ipairs(aside) do
    local was = redis.call('HMGET', KEYS[1], name, 'b' .. name)
    if not was[2] then set('b' .. name, was[1] or '') end
  end
end

for connection in pairs(rerouted) do
  if routes[connection] ~= '' and rerouted[connection] then
    redis.call('HSET', KEYS[4], 'r:' .. connection, routes[connection])
  end
end
local now
if ended or released then
  local time = redis.call('TIME')
  -- As text: Redis takes its time to turn a number of Lua into one.
  now = string.format('%d', time[1] * 1000 + math.floor(time[2] / 1000))
end
-- One that was deleted is listed nowhere. One that an earlier version has made is from here on.
if ended and m[7] then list(prefix, ARGV[1], m[7], m[8], now) end
if released then
  redis.call('ZADD', prefix .. 'rest', now, ARGV[1])
  set('own', '')
  set('rel', ARGV[2])
  set('vanished', '')
end

-- Less than little if the session was made smaller meanwhile.
local counts = added < 0 or added + replaced >= LITTLE
if counts then set('ae', (ended or released) and stored or '') end
counts = counts and (ended or released)
write()
redis.call('HSET', KEYS[1], unpack(fields))
publish()
delete_acked()
for connection in pairs(rerouted) do
  if routes[connection] == '' then redis.call('HDEL', KEYS[4], 'r:' .. connection) end
end
if ended then redis.call('HDEL', KEYS[1], 'bstate', 'bview') end
if released then redis.call('ZREM', prefix .. 'due:' .. m[4], ARGV[1]) end
if counts then settle() end
return { 'done', text, released and 1 or 0 }
