#!lua flags=allow-oom
-- Forgets a session that nobody has used for so long, unless somebody has come since. If something is bound to
-- it, it is deleted instead, and a worker brings it to an end.
-- KEYS  1 session  2 parties
-- ARGV  1 session id  2 how long it may be unused, ms  3 nonce of its last command
-- Returns 1 if it is gone, else 0.
--@include thaw
--@include peek
--@include hide
--@include forget
local prefix = string.match(KEYS[1], '^.-}:')
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local used = redis.call('ZSCORE', prefix .. 'idle', ARGV[1])
if not used or tonumber(used) > now - tonumber(ARGV[2]) then return 0 end
-- What an earlier try of hiding it has put into its inbox does not count.
local m = redis.call('HMGET', KEYS[1], 'own', 'hides', 'prn', 'was', 'cwd')
local own, hides = m[1], m[2]
if hides and not m[3] then
  -- It is hidden; an earlier try may not have taken it off the lists.
  off_the_lists(prefix, ARGV[1], m[4], m[5])
  return 0
end
local waits = own and not hides and redis.call('HLEN', prefix .. 'c:' .. ARGV[1]) > 0
local busy = own and own ~= '' or waits
-- One that was used lately; or an earlier try has woken it.
if not busy and own and not redis.call('ZSCORE', prefix .. 'gone', ARGV[1]) then
  busy = redis.call('ZSCORE', prefix .. 'rest', ARGV[1])
end
for _, value in ipairs(redis.call('HVALS', KEYS[2])) do
  local expires = string.match(value, '^%S+ (%d+)$')
  busy = busy or expires and tonumber(expires) > now
end
if busy then
  redis.call('ZADD', prefix .. 'idle', now, ARGV[1])
  return 0
end
local s = peek(prefix, ARGV[1], 'prn', 'cwd', 'bound', 'ctl')
if s[1] and is_bound(s[3]) then
  redis.call('ZADD', prefix .. 'gone', now, ARGV[1])
  fields_of('prn')
  -- Commands come from a connection; one that was never attached to has none.
  local connection = s[4]
  if not connection or connection == '' then
    connection = string.sub(ARGV[1], 1, 4) .. string.rep('0', 22)
  end
  local head = string.format('delete\n%s\n\n%d\n', connection, now)
  hide(prefix, ARGV[1], s[1], s[2], now, ARGV[3], { head, '{}' })
  return 0
end
if s[1] then unlist(prefix, ARGV[1], s[1], s[2]) end
forget(prefix, ARGV[1], now, 'idle', s[1])
return 1
