-- Attaches a connection (load, resume) and makes it the controller, unless it only reads along.
-- KEYS  1 session  2 parties
-- ARGV  1 session id  2 principal  3 connection  4 request  5 cwd  6 replay  7 one-shot  8 watched
--       9 directives to keep  10 MCP servers are given  11 these  12 directories are given  13 these
--       14 only reads along  15 not if it is closed
-- Returns {'notfound'} {'closed'} {'cwd', cwd} {'unwatched', head}
--         {'done', head, route, controller, directives, view, pending}
--@include view
--@include thaw
local m = fields_of('prn', 'cwd', 'seq', 'shut')
if not m[1] or m[1] ~= ARGV[2] then return { 'notfound' } end
local observes = ARGV[14] == '1'
if m[4] and ARGV[15] == '1' and not observes then return { 'closed' } end
if m[2] ~= ARGV[5] and not (observes and ARGV[5] == '') then return { 'cwd', m[2] } end
local head = tonumber(m[3])
local party = redis.call('HMGET', KEYS[2], 's:' .. ARGV[3], 'w:' .. ARGV[3], 'r:' .. ARGV[3], 'd:' .. ARGV[3])
local directives = party[4] or ''
-- Who reads along in bodies comes again and again as the same one, and wants what there is by then.
local anew = observes and ARGV[7] == '1'
local last, count, again = 0, 0, false
for number, request in string.gmatch(directives, '(%d+) %d+ %d %a ([^\n]*)\n') do
  last, count = tonumber(number), count + 1
  again = again or request == ARGV[4] and not anew
end
if not again then
  local time = redis.call('TIME')
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  local expires = party[1] and string.match(party[1], ' (%d+)$')
  if ARGV[8] == '1' and not party[2] then redis.call('HSET', KEYS[2], 'w:' .. ARGV[3], '1') end
  local via = 'c'
  if expires and tonumber(expires) > now then
    via = 's'
  elseif ARGV[8] ~= '1' and not party[2] then
    return { 'unwatched', m[3] }
  end
  --@include switch
  local route = attach(party[3] or '', head + 1, via)
  if ARGV[4] ~= '' then
    if count >= tonumber(ARGV[9]) then directives = string.gsub(directives, '^[^\n]*\n', '', 1) end
    directives = directives .. string.format('%d %d %s %s %s\n',
      last + 1, head, ARGV[6], ARGV[7] == '1' and 'o' or via, ARGV[4])
  end
  if not observes then
    redis.call('HSET', KEYS[1], 'ctl', ARGV[3])
    local h = redis.call('HMGET', KEYS[1], 'mcp', 'dirs', 'own', 'wk')
    local changes = ARGV[10] == '1' and h[1] ~= ARGV[11] or ARGV[12] == '1' and h[2] ~= ARGV[13]
    -- Before it is changed: a repetition would find no change any more.
    if changes and h[3] and h[3] ~= '' then
      redis.call('SPUBLISH', string.match(KEYS[1], '^.-}:') .. 'o:' .. h[4], 'S' .. ARGV[1])
    end
    if ARGV[10] == '1' then redis.call('HSET', KEYS[1], 'mcp', ARGV[11]) end
    if ARGV[12] == '1' then redis.call('HSET', KEYS[1], 'dirs', ARGV[13]) end
    -- A session that was closed is open again.
    redis.call('HDEL', KEYS[1], 'shut')
  end
  redis.call('ZADD', string.match(KEYS[1], '^.-}:') .. 'rest', now, ARGV[1])
  -- Last: from here on the request is known, and nothing of this is done again.
  redis.call('HSET', KEYS[2], 'r:' .. ARGV[3], route, 'd:' .. ARGV[3], directives)
end
local prefix = string.match(KEYS[1], '^.-}:')
-- In the step itself: who reads along must hear of it before of whatever is written next.
redis.call('SPUBLISH', prefix .. 'n:' .. ARGV[1], 'A' .. ARGV[3])
local s = redis.call('HMGET', KEYS[1], 'seq', 'ctl', 'view', 'pend')
local p = redis.call('HMGET', KEYS[2], 'r:' .. ARGV[3], 'd:' .. ARGV[3])
return { 'done', s[1], p[1] or '', s[2] or '', p[2] or '', view_of(s[3]), s[4] or '' }
