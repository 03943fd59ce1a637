#!lua flags=allow-oom
-- What processes say of themselves. Removes what does not count any more, so it may even when Redis is full.
-- KEYS  1 reports
-- Returns {process, report, process, report …}
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local all, found = redis.call('HGETALL', KEYS[1]), {}
for at = 1, #all, 2 do
  local ends, text = string.match(all[at + 1], '^(%d+) (.*)$')
  if tonumber(ends) <= now then
    redis.call('HDEL', KEYS[1], all[at])
  else
    found[#found + 1] = all[at]
    found[#found + 1] = text
  end
end
return found
