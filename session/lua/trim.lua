-- What was delivered leaves a connection's outbox, oldest first, as far as its window allows. Entry `upto` itself
-- stays, so that a cursor that names it can be checked. What entries say to watch moves to the connection.
local ENTRY = 64
local function trim(connection, outbox, upto, window, entries, at_once, watches)
  local m = redis.call('HMGET', connection, 'seq', 'trim', 'ob', 'wn')
  local head, trimmed, bytes = tonumber(m[1] or '0'), tonumber(m[2] or '0'), tonumber(m[3] or '0')
  local watched, before = tonumber(m[4] or '0'), trimmed
  -- An earlier try may have left what it had let go.
  if trimmed > 0 then redis.call('XTRIM', outbox, 'MINID', string.format('%d-0', trimmed + 1)) end
  local function has_to_stay() return bytes <= window and head - trimmed <= entries end
  upto = math.min(upto, head)
  if has_to_stay() or trimmed + 1 >= upto then return bytes end
  local first, last = string.format('%d-0', trimmed + 1), string.format('%d-0', upto - 1)
  for _, entry in ipairs(redis.call('XRANGE', outbox, first, last, 'COUNT', at_once)) do
    if has_to_stay() then break end
    local number, frame = string.match(entry[1], '^%d+'), entry[2][2]
    -- As Frame::encode has it: a nonce, the kind, the length of the head, the head.
    if string.sub(frame, 5, 5) == 'w' then
      local session = string.match(frame, '^[%w-]+', 10)
      if redis.call('HEXISTS', connection, 'w:' .. session) == 0 then
        if watched >= watches then break end
        redis.call('HSET', connection, 'w:' .. session, number)
        watched = watched + 1
      end
    end
    bytes = math.max(bytes - #frame - ENTRY, 0)
    trimmed = tonumber(number)
  end
  if trimmed > before then
    redis.call('HSET', connection, 'trim', string.format('%d', trimmed), 'ob', bytes, 'wn', watched)
    redis.call('XTRIM', outbox, 'MINID', string.format('%d-0', trimmed + 1))
  end
  return bytes
end
