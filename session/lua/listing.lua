-- The places of a principal's sessions of one partition, latest first.
-- KEYS  1 list
-- ARGV  1 only after this time, ms, or ''  2 and after this session  3 at most so many
-- Returns {session, time, session, time, …}
-- Compares bytes, as Redis does; Lua would ask the server's locale.
local function comes_after(one, other)
  for at = 1, #one do
    local a, b = string.byte(one, at), string.byte(other, at) or -1
    if a ~= b then return a < b end
  end
  return false
end
local from = 0
if ARGV[1] ~= '' then
  -- Among those of the same time by halves: there may be many.
  from = redis.call('ZCOUNT', KEYS[1], '(' .. ARGV[1], '+inf')
  local upto = from + redis.call('ZCOUNT', KEYS[1], ARGV[1], ARGV[1])
  while from < upto do
    local middle = math.floor((from + upto) / 2)
    if comes_after(redis.call('ZREVRANGE', KEYS[1], middle, middle)[1], ARGV[2]) then
      upto = middle
    else
      from = middle + 1
    end
  end
end
return redis.call('ZREVRANGE', KEYS[1], from, from + tonumber(ARGV[3]) - 1, 'WITHSCORES')
