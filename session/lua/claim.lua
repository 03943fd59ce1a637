#!lua flags=allow-oom
-- Takes a session that has work and no holder, or takes it over from one whose lease ran out, with everything
-- needed to go on. Rewrites what is there, so it may even when Redis is full.
-- KEYS  1 session  2 inbox  3 due
-- ARGV  1 session id  2 agent  3 token  4 worker  5 lease, ms  6 it may be taken over until this time, ms
--       7 '1' if the claim counts once replicas have it, see confirm_claim
-- Returns {} or {head, cwd, params, state, running command, its begin, vanished at once, vanished while working,
--         MCP servers, directories, bound, principal, last command that counts, names of those done, inbox}
local m = redis.call('HMGET', KEYS[1], 'own', 'exp', 'ag', 'seq', 'cwd', 'params', 'state', 'run', 'began', 'vanished',
  'mcp', 'dirs', 'bound', 'heir', 'prn', 'ren', 'pend', 'cseq', 'done')
if not m[1] then
  redis.call('ZREM', KEYS[3], ARGV[1])
  return {}
end
if m[3] ~= ARGV[2] then return {} end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local again = m[1] == ARGV[3]
local takes_over = m[1] ~= '' and not again
if takes_over and (tonumber(m[2]) > now or now > tonumber(ARGV[6])) then return {} end
-- A last holder may have been stopped between saying that they are done and deleting them.
local done = {}
for name in string.gmatch(m[19] or '', '%S+') do done[name] = true end
local inbox, found = {}, redis.call('HGETALL', KEYS[2])
for at = 1, #found, 2 do
  local name, entry = found[at], found[at + 1]
  if done[name] then
    redis.call('HDEL', KEYS[2], name)
  else
    -- Earlier versions named commands by their number alone.
    if string.find(name, '^%d+$') then
      redis.call('HSET', KEYS[2], name .. '-00000000', entry)
      redis.call('HDEL', KEYS[2], name)
      name = name .. '-00000000'
    end
    inbox[#inbox + 1] = name
    inbox[#inbox + 1] = entry
  end
end
-- Nobody else goes on with what somebody has not finished taking in.
if m[1] == '' and #inbox == 0 or m[14] and not again then
  redis.call('ZREM', KEYS[3], ARGV[1])
  return {}
end
-- Holders in a row that vanished at the same event: 'at once, while working, event'.
local at_once, working, head = string.match(m[10] or '', '^(%d+) (%d+) (%d+)$')
if head ~= m[4] then at_once, working = '0', '0' end
-- One whose claim was never confirmed did not begin, and says nothing about the request.
if takes_over and m[16] ~= 'c' then
  -- Waiting for somebody's answer is no sign of trouble.
  local renewed, asks = m[16] == '1', m[17] and m[17] ~= ''
  if renewed then
    at_once = '0'
  elseif not asks then
    at_once = string.format('%d', at_once + 1)
  end
  if not (renewed and asks) then working = string.format('%d', working + 1) end
end
local expires = string.format('%d', now + tonumber(ARGV[5]))
if again then
  redis.call('HSET', KEYS[1], 'exp', expires)
else
  redis.call('HSET', KEYS[1], 'own', ARGV[3], 'exp', expires, 'wk', ARGV[4], 'ren', ARGV[7] == '1' and 'c' or '0',
    'vanished', at_once .. ' ' .. working .. ' ' .. m[4])
end
redis.call('ZADD', KEYS[3], expires, ARGV[1])
return { m[4], m[5], m[6], m[7] or '', m[8] or '', m[9] or '', at_once, working,
  m[11], m[12], m[13] or '', m[15] or '', m[18] or '0', m[19] or '', inbox }
