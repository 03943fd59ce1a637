-- A connection stream reads a session no more: the entries of its outbox that told it to watch the session stop
-- counting. One that is still in the outbox is marked, so that trim does not move it to the connection.
-- KEYS  1 connection
-- ARGV  1 session  2 the last entry that told to watch it
-- Returns 1, or 0 if the connection is not known.
local first, later, gone = 'w:' .. ARGV[1], 'v:' .. ARGV[1], 'x:' .. ARGV[1]
local m = redis.call('HMGET', KEYS[1], 'seq', 'trim', 'wn', first, later)
if not m[1] then return 0 end
local upto = tonumber(ARGV[2])
local function counts(number) return number and number ~= '' and tonumber(number) > upto end
-- One command changes everything that counts. An empty number is a watch that an earlier try let go.
local fields = {}
local function set(field, value)
  fields[#fields + 1] = field
  fields[#fields + 1] = value
end
if upto > tonumber(m[2] or '0') then set(gone, ARGV[2]) end
local keeps = counts(m[4]) and m[4] or counts(m[5]) and m[5]
if keeps then
  if keeps ~= m[4] then set(first, keeps) end
elseif m[4] and m[4] ~= '' then
  set(first, '')
  set('wn', math.max(tonumber(m[3] or '0') - 1, 0))
end
if #fields > 0 then redis.call('HSET', KEYS[1], unpack(fields)) end
if not keeps and m[4] then redis.call('HDEL', KEYS[1], first) end
if m[5] and (m[5] == keeps or not counts(m[5])) then redis.call('HDEL', KEYS[1], later) end
return 1
