-- Reads a session's log from the frame or block that holds a given event on.
-- KEYS  1 session  2 log  3 history
-- ARGV  1 event  2 at most so many frames or blocks
-- Returns {'frames', entries of the log} or {'blocks', block, …}
local from = tonumber(ARGV[1])
local snap = tonumber(redis.call('HGET', KEYS[1], 'snap') or '0')
-- Without fields it is gone, or frozen and all of it in blocks.
local frozen = snap == 0 and redis.call('EXISTS', KEYS[1]) == 0
if not frozen and (from > snap or snap == 0) then
  return { 'frames', redis.call('XRANGE', KEYS[2], ARGV[1] .. '-0', '+', 'COUNT', ARGV[2]) }
end
local low, high = 0, redis.call('LLEN', KEYS[3]) - 1
while low < high do
  local middle = math.floor((low + high) / 2)
  local last = tonumber(string.match(redis.call('LINDEX', KEYS[3], middle), '^%d+'))
  if last < from then low = middle + 1 else high = middle end
end
if low > high then return { 'blocks', {} } end
-- A block is a frame many times over.
local count = math.min(tonumber(ARGV[2]), 4)
local blocks = redis.call('LRANGE', KEYS[3], low, low + count - 1)
if tonumber(string.match(blocks[1], '^%d+')) < from then blocks = {} end
return { 'blocks', blocks }
