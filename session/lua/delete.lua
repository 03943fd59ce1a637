#!lua flags=allow-oom
-- Deletes a session for everybody but its holder; the rest is housekeeping's. Frees memory in the end,
-- so it may even when Redis is full.
-- KEYS  1 session  2 the same at rest
-- ARGV  1 session id  2 principal  3 head of the last command  4 its message  5 its nonce
-- Returns 1, or 0 if there was none.
--@include thaw
--@include hide
local prefix = string.match(KEYS[1], '^.-}:')
local m = fields_of('prn', 'cwd', 'own', 'bound')
if not m[1] then
  -- An earlier try of this very call has hidden it.
  local was = redis.call('HMGET', KEYS[1], 'was', 'by')
  if was[1] ~= ARGV[2] or was[2] ~= ARGV[5] then return 0 end
  off_the_lists(prefix, ARGV[1], ARGV[2], m[2])
  return 1
end
if m[1] ~= ARGV[2] then return 0 end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local has_work = m[3] ~= '' or redis.call('HLEN', prefix .. 'c:' .. ARGV[1]) > 0
local last = (has_work or is_bound(m[4])) and { ARGV[3], ARGV[4] }
hide(prefix, ARGV[1], m[1], m[2], now, ARGV[5], last)
return 1
