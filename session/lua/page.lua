-- Entries of a log from an event on, up to the one that holds `upto`: at most so many, and no more than so many
-- bytes together unless it is a single one. How large they are shows only when they are there, so a few are
-- fetched at a time.
local function page(log, from, upto, count, bytes)
  local found, total, few = {}, 0, 1
  while #found < count do
    local wanted = math.min(few, count - #found)
    local entries = redis.call('XRANGE', log, string.format('%d-0', from), '+', 'COUNT', wanted)
    for _, entry in ipairs(entries) do
      total = total + #entry[2][2]
      if total > bytes and #found > 0 then return found end
      found[#found + 1] = entry
      from = tonumber(string.match(entry[1], '^%d+')) + 1
      -- An entry has the number of its last event.
      if from > upto then return found end
    end
    if #entries < wanted then break end
    few = math.min(few * 2, 8)
  end
  return found
end
