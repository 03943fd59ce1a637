-- What was delivered leaves a connection's outbox, oldest first, as far as its window allows. Entry `upto` itself
-- stays, so that a cursor that names it can be checked. What entries say to watch moves to the connection.
-- ARGV from `at` on: bytes and entries of the window  entries that leave at once  sessions that may be watched
--   bytes of the window for positions
-- Returns what is left weighs, and what of that are positions.
local ENTRY = 64
-- As Frame::encode has it: a nonce, the kind, the length of the head, the head. There are no other updates in an outbox.
local function is_positions(frame) return string.sub(frame, 5, 5) == 'v' end
local function trim(connection, outbox, upto, at)
  local window, entries, watches = tonumber(ARGV[at]), tonumber(ARGV[at + 1]), tonumber(ARGV[at + 3])
  local m = redis.call('HMGET', connection, 'seq', 'trim', 'ob', 'wn', 'pb')
  local head, trimmed, bytes = tonumber(m[1] or '0'), tonumber(m[2] or '0'), tonumber(m[3] or '0')
  local watched, before, over = tonumber(m[4] or '0'), trimmed, {}
  -- Builds before this one do not count them.
  local positions = math.min(tonumber(m[5] or '0'), bytes)
  -- An earlier try may have left what it had let go.
  if trimmed > 0 then redis.call('XTRIM', outbox, 'MINID', string.format('%d-0', trimmed + 1)) end
  local function has_to_stay()
    return bytes - positions <= window and positions <= tonumber(ARGV[at + 4]) and head - trimmed <= entries
  end
  upto = math.min(upto, head)
  if has_to_stay() or trimmed + 1 >= upto then return bytes, positions end
  local first, last = string.format('%d-0', trimmed + 1), string.format('%d-0', upto - 1)
  for _, entry in ipairs(redis.call('XRANGE', outbox, first, last, 'COUNT', ARGV[at + 2])) do
    if has_to_stay() then break end
    local number, frame = string.match(entry[1], '^%d+'), entry[2][2]
    if string.sub(frame, 5, 5) == 'w' then
      local session = string.match(frame, '^[%w-]+', 10)
      local told = redis.call('HMGET', connection, 'w:' .. session, 'x:' .. session)
      if tonumber(told[2] or '0') >= tonumber(number) then
        -- The stream has left the session, see forget_watch.
        if told[2] == number then over[#over + 1] = 'x:' .. session end
      elseif not told[1] or told[1] == '' then
        if watched >= watches then break end
        redis.call('HSET', connection, 'w:' .. session, number)
        watched = watched + 1
      elseif tonumber(told[1]) < tonumber(number) then
        -- Cursors may name either: the first if it was watched all the time, the last if it was left meanwhile.
        redis.call('HSET', connection, 'v:' .. session, number)
      end
    end
    local weight = #frame + ENTRY
    bytes = math.max(bytes - weight, 0)
    if is_positions(frame) then positions = math.max(positions - weight, 0) end
    trimmed = tonumber(number)
  end
  if trimmed > before then
    redis.call('HSET', connection, 'trim', string.format('%d', trimmed), 'ob', bytes, 'wn', watched, 'pb', positions)
    redis.call('XTRIM', outbox, 'MINID', string.format('%d-0', trimmed + 1))
    if #over > 0 then redis.call('HDEL', connection, unpack(over)) end
  end
  return bytes, positions
end
