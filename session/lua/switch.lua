-- Shared: the same rules as Route::switch and Route::attach.
local function switch(route, seq, via)
  local from, way = string.match(route, '(%d+)(%a)$')
  if way == via and tonumber(from) <= seq then return route end
  local function covered() return tonumber(from) == seq and via == 'o' and way ~= 'o' end
  while from and tonumber(from) >= seq and not covered() do
    route = string.gsub(route, ',?%d+%a$', '')
    from, way = string.match(route, '(%d+)(%a)$')
  end
  local point = string.format('%d', seq) .. via
  route = route == '' and point or (route .. ',' .. point)
  local _, commas = string.gsub(route, ',', ',')
  if commas > 63 then route = string.gsub(route, '^%d+%a,', '', 1) end
  return route
end
local function attach(route, seq, via)
  local began = string.match(route, '(%d+)o$')
  if not began then return switch(route, seq, via) end
  local before = string.gsub(route, ',?%d+o$', '')
  return switch(before, tonumber(began), via) .. ',' .. began .. 'o'
end
