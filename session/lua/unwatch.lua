-- A connection that has closed a session and heard everything of it does not read it any more on its connection
-- stream: whatever wants to reach it there has to tell that stream first, as if it had never read there.
-- KEYS  1 session  2 parties  3 inbox
-- ARGV  1 connection  2 the last event that was delivered  3 the last load or resume that was answered
--       4 the entry of its outbox that had told to watch
-- Returns 1, or 0 if it is open, somebody else has closed it, there is more to come, or it does not read there: then
-- something may be on its way that has told that stream already.
--@include thaw
local m = fields_of('seq', 'shut')
if m[2] ~= ARGV[1] or m[1] ~= ARGV[2] or redis.call('HLEN', KEYS[3]) > 0 then return 0 end
local watched, left = 'w:' .. ARGV[1], 'l:' .. ARGV[1]
local party = redis.call('HMGET', KEYS[2], watched, 'd:' .. ARGV[1], left)
for number in string.gmatch(party[2] or '', '(%d+) %d+ %d %a [^\n]*\n') do
  if tonumber(number) > tonumber(ARGV[3]) then return 0 end
end
if party[3] == ARGV[4] then return 1 end
-- An earlier try may have got as far as the deletion, and counts only with what comes after it.
local begun = ARGV[4] .. '?'
if party[1] then
  redis.call('HSET', KEYS[2], left, begun)
  redis.call('HDEL', KEYS[2], watched)
elseif party[3] ~= begun then
  return 0
end
redis.call('HSET', KEYS[2], left, ARGV[4])
return 1
