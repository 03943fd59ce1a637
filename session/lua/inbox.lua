-- Commands that wait, but for those that the caller knows.
-- KEYS  1 session  2 inbox
-- ARGV  names of known commands
-- Returns {last command that counts, names of those that are done, name, entry, name, entry, …}
local m = redis.call('HMGET', KEYS[1], 'cseq', 'done')
local known = {}
for _, name in ipairs(ARGV) do known[name] = true end
local found = { m[1] or '0', m[2] or '' }
for _, name in ipairs(redis.call('HKEYS', KEYS[2])) do
  if not known[name] then
    found[#found + 1] = name
    found[#found + 1] = redis.call('HGET', KEYS[2], name)
  end
end
return found
