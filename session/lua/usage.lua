-- How much of one partition is a principal's.
-- KEYS  1 its list  … due, one for each agent
-- Returns {sessions, of these with work}
local turns = 0
for at = 2, #KEYS do
  -- As long as the shorter of the two: few have work, or few are the principal's.
  turns = turns + redis.call('ZINTERCARD', 2, KEYS[1], KEYS[at])
end
return { redis.call('ZCARD', KEYS[1]), turns }
