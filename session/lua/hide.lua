-- A session that nobody finds any more: without its principal no step is for it but its holder's.
--@include lists
local function unlist(prefix, id, principal, cwd)
  local all, near = lists(prefix, principal, cwd)
  redis.call('ZREM', all, id)
  redis.call('ZREM', near, id)
end
local function hide(prefix, id, principal, cwd, now)
  unlist(prefix, id, principal, cwd)
  redis.call('HDEL', prefix .. 's:' .. id, 'prn')
  redis.call('HSET', prefix .. 's:' .. id, 'was', principal)
  redis.call('ZREM', prefix .. 'rest', id)
  redis.call('ZREM', prefix .. 'idle', id)
  redis.call('ZADD', prefix .. 'gone', now, id)
end
-- Its last command, as enqueue.lua writes them, and a word to whoever should look.
local function finish(prefix, id, now, head, message)
  local key = prefix .. 's:' .. id
  local m = redis.call('HMGET', key, 'cseq', 'cn', 'cb', 'seq', 'own', 'exp', 'wk', 'ag')
  local number = string.format('%d', tonumber(m[1]) + 1)
  local entry = ' 0 ' .. number .. ' ' .. m[4] .. ' c\n' .. head .. '\n' .. message
  redis.call('HSET', prefix .. 'c:' .. id, number, entry)
  redis.call('HSET', key, 'cseq', number, 'cn', tonumber(m[2]) + 1, 'cb', tonumber(m[3]) + #message)
  if m[5] ~= '' and tonumber(m[6]) > now then
    redis.call('SPUBLISH', prefix .. 'o:' .. m[7], 'I' .. id)
  else
    redis.call('ZADD', prefix .. 'due:' .. m[8], 'NX', now, id)
    redis.call('SPUBLISH', prefix .. 'w:' .. m[8], 'R' .. id)
  end
end
local function is_bound(bound)
  return bound and bound ~= '' and not string.find(bound, '^%s*{%s*}%s*$')
end
