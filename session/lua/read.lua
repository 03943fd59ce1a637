-- Reads a session's log from the frame or block that holds a given event on.
-- KEYS  1 session  2 log  3 history
-- ARGV  1 event  2 at most so many frames or blocks  3 none that begins after this event, 0 for any
--       4 at most so many bytes, unless it is a single frame or block
--       5 '1' for nothing that replicas may lack, see confirm_events
-- Returns {'frames', entries of the log, upto, 1 if some are hidden} or {'blocks', blocks, upto}: if upto is not '',
--         they are inherited from an ancestor, and only what comes up to there
--@include page
local from, count, bytes = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[4])
local last_wanted = ARGV[3] == '0' and math.huge or tonumber(ARGV[3])
local session, log, history, upto = KEYS[1], KEYS[2], KEYS[3], ''
local prefix, id = string.match(session, '^(.-}:)s:(.*)$')
for ancestor, last in string.gmatch(redis.call('GET', prefix .. 'l:' .. id) or '', '\n(%S+) (%d+)') do
  if from <= tonumber(last) then
    session, log, history, upto = prefix .. 's:' .. ancestor, prefix .. 'e:' .. ancestor, prefix .. 'h:' .. ancestor, last
    break
  end
end
local m = redis.call('HMGET', session, 'snap', 'unc')
local snap = tonumber(m[1] or '0')
-- Without fields it is gone, or frozen and all of it in blocks.
local frozen = snap == 0 and redis.call('EXISTS', session) == 0
if not frozen and (from > snap or snap == 0) then
  -- What a fork inherits was confirmed with it.
  local hidden = ARGV[5] == '1' and upto == '' and tonumber(string.match(m[2] or '', '^%d+'))
  if not hidden then return { 'frames', page(log, from, last_wanted, count, bytes), upto, 0 } end
  if from >= hidden then return { 'frames', {}, upto, 1 } end
  return { 'frames', page(log, from, math.min(last_wanted, hidden - 1), count, bytes), upto, 1 }
end
local newest = redis.call('LLEN', history) - 1
local low, high = 0, newest
while low < high do
  local middle = math.floor((low + high) / 2)
  local last = tonumber(string.match(redis.call('LINDEX', history, middle), '^%d+'))
  if last < from then low = middle + 1 else high = middle end
end
local blocks, total = {}, 0
-- A block is a frame many times over.
for at = low, math.min(newest, low + math.min(count, 4) - 1) do
  local block = redis.call('LRANGE', history, at, at)[1]
  local last = tonumber(string.match(block, '^%d+'))
  total = total + #block
  if last < from or total > bytes and #blocks > 0 then break end
  blocks[#blocks + 1] = block
  if last >= last_wanted then break end
end
return { 'blocks', blocks, upto }
