-- Commands that wait, with numbers above a given one.
-- KEYS  1 session  2 inbox
-- ARGV  1 number
-- Returns {number, entry, number, entry, …}
local last = tonumber(redis.call('HGET', KEYS[1], 'cseq') or '0')
local found = {}
for number = tonumber(ARGV[1]) + 1, last do
  local text = string.format('%d', number)
  local entry = redis.call('HGET', KEYS[2], text)
  if entry then
    found[#found + 1] = text
    found[#found + 1] = entry
  end
end
return found
