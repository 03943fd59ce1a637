-- What a list shows of sessions of one partition.
-- KEYS  sessions
-- ARGV  1 principal  2 cwd or ''; then per session its id
-- Returns per session {} if it is not the principal's or not there, else {cwd, title, directories, usage}
--@include peek
local prefix = string.match(KEYS[1], '^.-}:')
local found = {}
for at in ipairs(KEYS) do
  local m = peek(prefix, ARGV[at + 2], 'prn', 'cwd', 'title', 'dirs', 'usage')
  -- The name of a list is a hash, and no proof.
  if m[1] == ARGV[1] and (ARGV[2] == '' or m[2] == ARGV[2]) then
    found[at] = { m[2], m[3] or '', m[4] or '', m[5] or '' }
  else
    found[at] = {}
  end
end
return found
