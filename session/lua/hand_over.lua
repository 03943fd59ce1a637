-- A session wants a worker: wakes the one with most room, which it says at every look at what is due (see due.lua). One that does not
-- listen any more is struck off. If none is left, all of the agent's workers are woken: earlier versions do not say.
local function hand_over(prefix, agent, id)
  local room = prefix .. 'due:room:' .. agent
  for _ = 1, 8 do
    local worker = redis.call('ZREVRANGE', room, 0, 0)[1]
    if not worker then break end
    if redis.call('SPUBLISH', prefix .. 'o:' .. worker .. '+', 'H' .. id) > 0 then
      redis.call('ZADD', room, 'INCR', '-1', worker)
      return
    end
    redis.call('ZREM', room, worker)
  end
  redis.call('SPUBLISH', prefix .. 'w:' .. agent, 'R' .. id)
end
