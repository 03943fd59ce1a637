-- Of a session that shares another's log up to a number: how many ancestors it has, and which of them has which
-- events: each up to a number, none that has nothing of its own here. read.lua finds the way back.
local function continued(prefix, with, upto)
  local lineage = redis.call('GET', prefix .. 'l:' .. with) or '0 0'
  local depth, inherited = string.match(lineage, '^(%d+) (%d+)')
  local lines, covered = {}, 0
  for ancestor, last in string.gmatch(lineage, '\n(%S+) (%d+)') do
    if covered < upto then
      covered = math.min(tonumber(last), upto)
      lines[#lines + 1] = string.format('\n%s %d', ancestor, covered)
    end
  end
  if tonumber(inherited) < upto then lines[#lines + 1] = string.format('\n%s %d', with, upto) end
  return tonumber(depth) + 1, table.concat(lines)
end
