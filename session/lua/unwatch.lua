-- A connection that has closed a session and heard everything of it does not read it any more on its connection
-- stream: whatever wants to reach it there has to tell that stream first, as if it had never read there.
-- KEYS  1 session  2 parties  3 inbox
-- ARGV  1 connection  2 the last event that was delivered  3 the last load or resume that was answered
-- Returns 1, or 0 if the session is open, there is more to come, or it did not read there.
--@include thaw
local m = fields_of('seq', 'shut')
if not m[2] or m[1] ~= ARGV[2] or redis.call('HLEN', KEYS[3]) > 0 then return 0 end
local party = redis.call('HMGET', KEYS[2], 'w:' .. ARGV[1], 'd:' .. ARGV[1])
if not party[1] then return 0 end
for number in string.gmatch(party[2] or '', '(%d+) %d+ %d %a [^\n]*\n') do
  if tonumber(number) > tonumber(ARGV[3]) then return 0 end
end
redis.call('HDEL', KEYS[2], 'w:' .. ARGV[1])
return 1
