-- Removes all there is of a session, and of those ancestors that were only kept for it. If forks read
-- its log, that stays: numbers, frames, blocks, and where it came from itself.
local function forget(prefix, id, now)
  local function key(kind) return prefix .. kind .. ':' .. id end
  repeat
    local goes_on = false
    redis.call('ZREM', prefix .. 'rest', id)
    redis.call('ZREM', prefix .. 'idle', id)
    redis.call('ZREM', prefix .. 'gone', id)
    if redis.call('EXISTS', key('f')) == 1 then
      local m = peek(prefix, id, 'seq', 'snap')
      redis.call('UNLINK', key('s'), key('z'), key('c'), key('p'))
      redis.call('HSET', key('s'), 'seq', m[1], 'snap', m[2] or '0')
      -- What is not in blocks yet will be.
      redis.call('ZADD', prefix .. 'rest', now, id)
    else
      local lineage = redis.call('GET', key('l'))
      redis.call('UNLINK', key('s'), key('z'), key('c'), key('p'), key('e'), key('h'), key('l'))
      if lineage then
        local child = id
        id = string.match(lineage, '^%d+ %d+ (%S+)')
        redis.call('SREM', key('f'), child)
        goes_on = redis.call('EXISTS', key('f'), key('z')) == 0
          and redis.call('HEXISTS', key('s'), 'own') == 0
      end
    end
  until not goes_on
end
