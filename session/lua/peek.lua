-- The fields of a session as they are, also of one that rests, see freeze.lua: it goes on resting.
local function peek(prefix, id, ...)
  local found = redis.call('HMGET', prefix .. 's:' .. id, ...)
  if found[1] or redis.call('HEXISTS', prefix .. 's:' .. id, 'seq') == 1 then return found end
  local frozen = redis.call('GET', prefix .. 'z:' .. id)
  if not frozen then return found end
  local whole = cmsgpack.unpack(string.sub(frozen, string.find(frozen, ' ', 1, true) + 1))
  local at = {}
  for place, name in ipairs({ ... }) do at[name] = place end
  for field = 1, #whole[1], 2 do
    local place = at[whole[1][field]]
    if place then found[place] = whole[1][field + 1] end
  end
  return found
end
