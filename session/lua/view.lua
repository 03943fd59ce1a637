-- Sessions with the same modes and options share one copy of them, kept by what it says.
local function view_of(hash)
  if not hash or hash == '' then return '' end
  return redis.call('GET', string.match(KEYS[1], '^.-}:') .. 'v:' .. hash) or ''
end
