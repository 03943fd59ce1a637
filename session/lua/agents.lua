-- All agents that are known, with the number of workers alive.
-- KEYS  1 cards
-- Returns {agent, card, workers, agent, card, workers, …}; the card is '' if only sessions of it have come
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local prefix = string.match(KEYS[1], '^.-}:')
local found = {}
local cards = redis.call('HGETALL', KEYS[1])
for at = 1, #cards, 2 do
  found[#found + 1] = cards[at]
  found[#found + 1] = cards[at + 1]
  found[#found + 1] = redis.call('ZCOUNT', prefix .. 'alive:' .. cards[at], string.format('(%d', now), '+inf')
end
return found
