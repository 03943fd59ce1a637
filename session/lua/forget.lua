-- Removes all there is of a session, and of those ancestors that were only kept for it. If forks read
-- its log, that stays: numbers, frames, blocks, and where it came from itself. What is gone leaves the account of
-- the principal, who has all of them.
-- `last` is the list that it was found in: it leaves that one when all else is done, so that whoever comes after a try
-- that failed finds it again.
--@include stored
local function forget(prefix, id, now, last, principal)
  local function key(kind, of) return prefix .. kind .. ':' .. of end
  local function unlisted(of)
    for _, name in ipairs({ 'rest', 'idle', 'gone' }) do
      if name ~= last then redis.call('ZREM', prefix .. name, of) end
    end
    redis.call('ZREM', prefix .. last, of)
  end
  if redis.call('EXISTS', key('f', id)) == 1 then
    local m = peek(prefix, id, 'seq', 'snap', 'eb', 'hb', 'acc')
    local kept = { seq = m[1], snap = m[2] or '0', eb = m[3] or '0', hb = m[4] or '0', acc = principal or m[5] }
    local fields, others = {}, {}
    for name, value in pairs(kept) do
      fields[#fields + 1] = name
      fields[#fields + 1] = value
    end
    redis.call('HSET', key('s', id), unpack(fields))
    for _, field in ipairs(redis.call('HKEYS', key('s', id))) do
      if not kept[field] then others[#others + 1] = field end
    end
    if #others > 0 then redis.call('HDEL', key('s', id), unpack(others)) end
    redis.call('UNLINK', key('z', id), key('c', id), key('p', id))
    if kept.acc then account(prefix, kept.acc, id, weigh(key('s', id))) end
    -- What is not in blocks yet will be.
    redis.call('ZADD', prefix .. 'rest', now, id)
    redis.call('ZREM', prefix .. (last == 'idle' and 'gone' or 'idle'), id)
    redis.call('ZREM', prefix .. last, id)
    return
  end
  -- The oldest goes first: whoever comes after a try that failed still finds the way there.
  local chain, parents, at = {}, {}, id
  while at do
    chain[#chain + 1] = at
    local lineage = redis.call('GET', key('l', at))
    local parent = lineage and string.match(lineage, '^%d+ %d+ (%S+)')
    parents[at] = parent
    local forks = parent and redis.call('SCARD', key('f', parent)) - redis.call('SISMEMBER', key('f', parent), at)
    local only_kept = parent and forks == 0 and redis.call('EXISTS', key('z', parent)) == 0
      and redis.call('HEXISTS', key('s', parent), 'own') == 0
    at = only_kept and parent
  end
  for place = #chain, 1, -1 do
    at = chain[place]
    if parents[at] then redis.call('SREM', key('f', parents[at]), at) end
    if principal then account(prefix, principal, at, 0) end
    redis.call('UNLINK', key('s', at), key('z', at), key('c', at), key('p', at), key('e', at), key('h', at), key('l', at))
    unlisted(at)
  end
end
