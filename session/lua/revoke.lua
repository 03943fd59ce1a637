#!lua flags=allow-oom
-- Takes something back. Few and small, and nobody may be kept out by filling Redis: it may when it is full.
-- KEYS  1 revocations  2 when they end  3 those that this caller has asked for, or ''
-- ARGV  1 subject  2 revocation  3 what was issued at or before this is refused, s  4 when it takes effect, s
--       5 when it ends, s  6 now, s  7 what was asked for: l logout, r renewal, e end, or '' by an administrator
--       8 the principal  9 how many of these it may have
-- Returns 1, or 0 if the caller has too many already.
local prefix = string.match(KEYS[1], '^.-}:')
local subject, text, before, until_ = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[5])
local function times(line)
  local b, u = string.match(line or '', '^%d (%d+) %d+ (%d+) ')
  return tonumber(b or '-1'), tonumber(u or '-1')
end
local function forget(list)
  for _, gone in ipairs(list) do
    redis.call('HDEL', KEYS[1], gone)
    redis.call('ZREM', KEYS[2], gone)
  end
end
-- The later one stays.
if times(redis.call('HGET', KEYS[1], subject)) > before then return 1 end
local asked, principal, own, covers = ARGV[7], ARGV[8], ARGV[7] ~= '', nil
if own then
  local all = 'l ' .. principal
  local covered, lasts = times(redis.call('HGET', KEYS[1], all))
  if asked == 'l' and before <= covered and until_ <= lasts then
    -- Of those that it stands for, an earlier try may not have forgotten all.
    for _, one in ipairs(redis.call('ZRANGE', KEYS[3], 0, -1)) do
      local b, u = times(redis.call('HGET', KEYS[1], one))
      if b <= covered and u <= lasts then
        forget({ one })
        redis.call('ZREM', KEYS[3], one)
      end
    end
    return 1
  end
  -- Some of those that have ended leave each time; none of them counts.
  for _, ended in ipairs(redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', ARGV[6], 'LIMIT', 0, 100)) do
    redis.call('ZREM', KEYS[3], ended)
  end
  local count = redis.call('ZCOUNT', KEYS[3], '(' .. ARGV[6], '+inf')
  if not redis.call('ZSCORE', KEYS[3], subject) then count = count + 1 end
  if count > tonumber(ARGV[9]) then
    if asked == 'r' then return 0 end
    if asked == 'e' then
      local first = redis.call('ZRANGEBYSCORE', KEYS[3], '(' .. ARGV[6], '+inf', 'LIMIT', 0, 1)
      redis.call('ZREM', KEYS[3], first[1])
      forget(first)
    else
      -- One for all logins of the principal.
      local many = redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', '+inf')
      before = math.max(before, covered, tonumber(ARGV[6]))
      until_ = math.max(until_, lasts)
      for _, one in ipairs(many) do
        local b, u = times(redis.call('HGET', KEYS[1], one))
        before, until_ = math.max(before, b), math.max(until_, u)
      end
      subject, own, covers = all, false, many
      text = string.format('2 %d %s %d %s\tl%s', before, ARGV[4], until_, all, principal)
    end
  end
end
if own then
  redis.call('ZADD', KEYS[3], until_, subject)
  local last = redis.call('ZREVRANGE', KEYS[3], 0, 0, 'WITHSCORES')
  redis.call('EXPIRE', KEYS[3], math.max(1, last[2] - ARGV[6]))
end
redis.call('ZADD', KEYS[2], until_, subject)
redis.call('HSET', KEYS[1], subject, text)
-- Again if it is repeated: the first time may have reached nobody.
redis.call('SPUBLISH', prefix .. 'n', 'V' .. text)
if covers then
  forget(covers)
  redis.call('DEL', KEYS[3])
end
return 1
