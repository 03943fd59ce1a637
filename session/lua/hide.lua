-- A session that nobody finds any more: without its principal no step is for it but its holder's.
--@include lists
local function unlist(prefix, id, principal, cwd)
  local all, near = lists(prefix, principal, cwd)
  redis.call('ZREM', all, id)
  redis.call('ZREM', near, id)
end
local function off_the_lists(prefix, id, principal, cwd)
  unlist(prefix, id, principal, cwd)
  redis.call('ZREM', prefix .. 'rest', id)
  redis.call('ZREM', prefix .. 'idle', id)
end
-- `last` is its last command, {head, message}, for whoever works on it, or false. The session is hidden by
-- the HDEL: until then another try does all of it again, and from then on only deletions are left.
local function hide(prefix, id, principal, cwd, now, nonce, last)
  local key, inbox, wake = prefix .. 's:' .. id, prefix .. 'c:' .. id, nil
  redis.call('ZADD', prefix .. 'gone', now, id)
  redis.call('HSET', key, 'hides', '1')
  if last then
    local m = redis.call('HMGET', key, 'cseq', 'cb', 'own', 'exp', 'wk', 'ag')
    if redis.call('HEXISTS', inbox, m[1] .. '-' .. nonce) == 0 then
      local number = string.format('%d', tonumber(m[1]) + 1)
      local name = number .. '-' .. nonce
      local entry = ' c\n' .. last[1] .. '\n' .. last[2]
      redis.call('HSET', inbox, name, entry)
      redis.call('HSET', key, 'cseq', number, 'cb', tonumber(m[2]) + #last[2])
    end
    if m[3] ~= '' and tonumber(m[4]) > now then
      wake = { prefix .. 'o:' .. m[5], 'I' .. id }
    else
      redis.call('ZADD', prefix .. 'due:' .. m[6], 'LT', now, id)
      wake = { prefix .. 'w:' .. m[6], 'R' .. id }
    end
  end
  redis.call('HSET', key, 'was', principal, 'by', nonce)
  local controller = redis.call('HGET', key, 'ctl') or ''
  redis.call('HDEL', key, 'prn')
  -- Streams look again, and whoever works on it.
  redis.call('SPUBLISH', prefix .. 'n:' .. id, 'A' .. controller)
  if wake then redis.call('SPUBLISH', wake[1], wake[2]) end
  off_the_lists(prefix, id, principal, cwd)
end
local function is_bound(bound)
  return bound and bound ~= '' and not string.find(bound, '^%s*{%s*}%s*$')
end
