-- How much of one partition is a principal's.
-- KEYS  1 its list  … due, one for each agent
-- Returns {sessions, of these with work}
local prefix, turns = string.match(KEYS[1], '^.-}:'), 0
for at = 2, #KEYS do
  -- As long as the shorter of the two: few are due, or few are the principal's. One that only rests at
  -- its worker is due, too.
  for _, id in ipairs(redis.call('ZINTER', 2, KEYS[1], KEYS[at])) do
    local run = redis.call('HGET', prefix .. 's:' .. id, 'run') or ''
    if run ~= '' or redis.call('HLEN', prefix .. 'c:' .. id) > 0 then turns = turns + 1 end
  end
end
return { redis.call('ZCARD', KEYS[1]), turns }
