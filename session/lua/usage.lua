-- How much of one partition is a principal's.
-- KEYS  1 its list  2 its account  … due, one for each agent
-- Returns {sessions, of these with work, bytes that are kept of it}
local prefix, turns = string.match(KEYS[1], '^.-}:'), 0
local stored = tonumber(redis.call('HGET', KEYS[2], 'sum') or '0')
for at = 3, #KEYS do
  -- As long as the shorter of the two: few are due, or few are the principal's. One that only rests at
  -- its worker is due, too.
  for _, id in ipairs(redis.call('ZINTER', 2, KEYS[1], KEYS[at])) do
    local m = redis.call('HMGET', prefix .. 's:' .. id, 'run', 'cb', 'eb', 'hb')
    local waiting = redis.call('HLEN', prefix .. 'c:' .. id)
    if (m[1] or '') ~= '' or waiting > 0 then
      turns = turns + 1
      -- What waits, and what the turn has written so far and is not on the account yet.
      local written = tonumber(m[3] or '0') + tonumber(m[4] or '0')
      local counted = tonumber(redis.call('HGET', KEYS[2], id) or '0')
      stored = stored + (waiting > 0 and tonumber(m[2] or '0') or 0) + math.max(written - counted, 0)
    end
  end
end
return { redis.call('ZCARD', KEYS[1]), turns, stored }
