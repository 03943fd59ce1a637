-- Reads a session's log from the frame or block that holds a given event on.
-- KEYS  1 session  2 log  3 history
-- ARGV  1 event  2 at most so many frames or blocks  3 none that begins after this event, 0 for any
-- Returns {'frames', entries of the log, upto} or {'blocks', blocks, upto}: if that is not '', they are
--         inherited from an ancestor, and only what comes up to there
local from = tonumber(ARGV[1])
local session, log, history, upto = KEYS[1], KEYS[2], KEYS[3], ''
local prefix, id = string.match(session, '^(.-}:)s:(.*)$')
for ancestor, last in string.gmatch(redis.call('GET', prefix .. 'l:' .. id) or '', '\n(%S+) (%d+)') do
  if from <= tonumber(last) then
    session, log, history, upto = prefix .. 's:' .. ancestor, prefix .. 'e:' .. ancestor, prefix .. 'h:' .. ancestor, last
    break
  end
end
local snap = tonumber(redis.call('HGET', session, 'snap') or '0')
-- Without fields it is gone, or frozen and all of it in blocks.
local frozen = snap == 0 and redis.call('EXISTS', session) == 0
if not frozen and (from > snap or snap == 0) then
  if ARGV[3] == '0' then
    return { 'frames', redis.call('XRANGE', log, ARGV[1] .. '-0', '+', 'COUNT', ARGV[2]), upto }
  end
  local frames = redis.call('XRANGE', log, ARGV[1] .. '-0', ARGV[3] .. '-0', 'COUNT', ARGV[2])
  -- A frame has the number of its last event: the one that holds this event may come after it.
  if #frames < tonumber(ARGV[2]) and (not frames[1] or frames[#frames][1] ~= ARGV[3] .. '-0') then
    frames[#frames + 1] = redis.call('XRANGE', log, ARGV[3] .. '-0', '+', 'COUNT', 1)[1]
  end
  return { 'frames', frames, upto }
end
local low, high = 0, redis.call('LLEN', history) - 1
while low < high do
  local middle = math.floor((low + high) / 2)
  local last = tonumber(string.match(redis.call('LINDEX', history, middle), '^%d+'))
  if last < from then low = middle + 1 else high = middle end
end
if low > high then return { 'blocks', {}, upto } end
-- A block is a frame many times over.
local count = math.min(tonumber(ARGV[2]), 4)
local blocks = redis.call('LRANGE', history, low, low + count - 1)
if tonumber(string.match(blocks[1], '^%d+')) < from then blocks = {} end
if ARGV[3] ~= '0' then
  for at = 1, #blocks - 1 do
    if tonumber(string.match(blocks[at], '^%d+')) >= tonumber(ARGV[3]) then
      blocks = { unpack(blocks, 1, at) }
      break
    end
  end
end
return { 'blocks', blocks, upto }
