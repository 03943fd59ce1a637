-- The one way to write a session's log: fenced, without holes, without repetition.
-- KEYS  1 session  2 log  3 inbox  4 parties
-- ARGV  1 session id  2 token  3 first number  4 how many events  5 frame  6 release
--       7 frames up to this size are published whole  8 number of acks  … acks
--       then pairs: a field of the session and its value, or
--       begin, 'seq command connection via' / control, 'seq connection via' / end, 'seq connection'
-- Returns {'fenced'} {'gap', head} {'done', head, released}
-- Nearly always it is words in the middle of a turn, and nothing changes but the log.
local plain = #ARGV == 8 and ARGV[6] == '0'
local m = plain and redis.call('HMGET', KEYS[1], 'own', 'seq', 'rel')
  or redis.call('HMGET', KEYS[1], 'own', 'seq', 'rel', 'ag', 'cn', 'run', 'heir', 'prn', 'cwd')
local head = tonumber(m[2] or '0')
local first, count = tonumber(ARGV[3]), tonumber(ARGV[4])
local last = first + count - 1
if not m[1] or m[1] ~= ARGV[2] then
  if m[3] == ARGV[2] and last <= head then return { 'done', m[2], 1 } end
  return { 'fenced' }
end
if first <= head and last <= head then return { 'done', m[2], 0 } end
if first ~= head + 1 then return { 'gap', m[2] } end
local text = string.format('%d', last)
local prefix = string.match(KEYS[1], '^.-}:')
local function write()
  redis.call('XADD', KEYS[2], text .. '-0', 'd', ARGV[5])
  local whole = #ARGV[5] <= tonumber(ARGV[7])
  redis.call('SPUBLISH', prefix .. 'n:' .. ARGV[1], whole and 'F' .. text .. '\n' .. ARGV[5] or 'G' .. text)
end
if plain and count > 0 then
  redis.call('HSET', KEYS[1], 'seq', text)
  write()
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

local acks, waiting = tonumber(ARGV[8]), tonumber(m[5])
if acks > 0 then
  waiting = waiting - redis.call('HDEL', KEYS[3], unpack(ARGV, 9, 8 + acks))
  set('cn', string.format('%d', waiting))
  -- Counted again from nothing once nothing waits.
  if waiting == 0 then set('cb', '0') end
end

--@include switch
--@include lists
local routes, rerouted = {}, {}
local function reroute(connection, change)
  local route = routes[connection] or redis.call('HGET', KEYS[4], 'r:' .. connection) or ''
  routes[connection] = change(route)
  rerouted[connection] = rerouted[connection] or routes[connection] ~= route
end
local run, ended, aside = m[6] or '', false, {}
-- What comes from elsewhere has happened long ago, to others.
local history = m[7] and { begin = true, control = true, ['end'] = true } or {}
for at = 9 + acks, #ARGV, 2 do
  local name, value = ARGV[at], ARGV[at + 1]
  if history[name] then
    -- The log has it.
  elseif name == 'begin' then
    local seq, command, connection, via = string.match(value, '^(%d+) (%d+) (%S+) (%a)$')
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
  elseif name == 'view' then
    -- See view.lua.
    local hash = redis.sha1hex(value)
    redis.call('SET', string.match(KEYS[1], '^.-}:') .. 'v:' .. hash, value, 'EX', 2592000)
    set('view', hash)
    aside[#aside + 1] = 'view'
  else
    set(name, value)
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
  if routes[connection] == '' then
    redis.call('HDEL', KEYS[4], 'r:' .. connection)
  elseif rerouted[connection] then
    redis.call('HSET', KEYS[4], 'r:' .. connection, routes[connection])
  end
end

local released, now = ARGV[6] == '1' and waiting == 0, nil
if ended or released then
  local time = redis.call('TIME')
  -- As text: Redis takes its time to turn a number of Lua into one.
  now = string.format('%d', time[1] * 1000 + math.floor(time[2] / 1000))
end
if ended then
  redis.call('HDEL', KEYS[1], 'bstate', 'bview')
  -- One that was deleted is listed nowhere. One that an earlier version has made is from here on.
  if m[8] then list(prefix, ARGV[1], m[8], m[9], now) end
end
if released then
  set('own', '')
  set('rel', ARGV[2])
  redis.call('ZREM', prefix .. 'due:' .. m[4], ARGV[1])
  redis.call('ZADD', prefix .. 'rest', now, ARGV[1])
end
redis.call('HSET', KEYS[1], unpack(fields))
if count > 0 then write() end
return { 'done', text, released and 1 or 0 }
