-- What is kept of a session, in bytes, and whose account that is on. It is set, never added: a step that is
-- repeated, or lost by a failover and done later, leaves the account right.
-- The end of a turn that has added less than this need not set it: the next one does, or the session's rest.
local LITTLE = 16384
local function weigh(key)
  local m = redis.call('HMGET', key, 'eb', 'hb', 'vb', 'cwd', 'params', 'mcp', 'dirs', 'state', 'bstate', 'title',
    'usage', 'bound')
  local bytes = tonumber(m[1] or '0') + tonumber(m[2] or '0') + tonumber(m[3] or '0')
  for at = 4, 12 do bytes = bytes + #(m[at] or '') end
  return bytes
end
-- Nothing is left of it, if `bytes` is 0.
local function account(prefix, principal, id, bytes)
  local key = prefix .. 'b:' .. string.sub(redis.sha1hex(principal), 1, 16)
  local m = redis.call('HMGET', key, 'sum', id)
  local sum = tonumber(m[1] or '0') + bytes - tonumber(m[2] or '0')
  if bytes > 0 then
    redis.call('HSET', key, 'sum', string.format('%d', sum), id, string.format('%d', bytes))
  elseif sum > 0 then
    redis.call('HSET', key, 'sum', string.format('%d', sum), id, '0')
    redis.call('HDEL', key, id)
  else
    redis.call('DEL', key)
  end
end
