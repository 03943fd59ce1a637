-- A session that rests is kept in one string, see freeze.lua; whoever needs its fields brings it back.
local function fields_of(...)
  local found = redis.call('HMGET', KEYS[1], ...)
  -- One that was deleted has fields, too; the string may be left over from before.
  if found[1] or redis.call('HEXISTS', KEYS[1], 'seq') == 1 then return found end
  local prefix, kind, id = string.match(KEYS[1], '^(.-}:)(%a+):(.*)$')
  local frozen = redis.call('GET', prefix .. 'z:' .. id)
  if not frozen then return found end
  local whole = cmsgpack.unpack(string.sub(frozen, string.find(frozen, ' ', 1, true) + 1))
  -- Lua takes some thousand arguments at a time, and a session may know many connections.
  for at = 1, #whole[2], 1000 do
    redis.call('HSET', prefix .. 'p:' .. id, unpack(whole[2], at, math.min(at + 999, #whole[2])))
  end
  -- To be made smaller again.
  local time = redis.call('TIME')
  redis.call('ZADD', prefix .. 'rest', time[1] * 1000 + math.floor(time[2] / 1000), id)
  -- From here on the fields count; the string is deleted last.
  redis.call('HSET', KEYS[1], 'own', '', 'exp', '0', 'cb', '0', unpack(whole[1]))
  redis.call('DEL', prefix .. 'z:' .. id)
  return redis.call('HMGET', KEYS[1], ...)
end
