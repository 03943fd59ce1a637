-- A session between two turns, without its log.
-- KEYS  1 session  2 the same at rest
-- ARGV  1 session id  2 principal
-- Returns {} or {agent, cwd, params, MCP servers, directories, state, view, title, usage, bound, head, updated,
--         begin of the running turn or '', where modes and options changed}
--@include view
--@include peek
--@include lists
local prefix = string.match(KEYS[1], '^.-}:')
local m = peek(prefix, ARGV[1], 'seq', 'prn', 'ag', 'cwd', 'params', 'mcp', 'dirs', 'state', 'view', 'title',
  'usage', 'bound', 'run', 'began', 'bstate', 'bview', 'shown')
if not m[2] or m[2] ~= ARGV[2] then return {} end
local head, began, state, view = m[1], '', m[8], m[9]
if m[13] and m[13] ~= '' then
  began = m[14]
  head = string.format('%d', tonumber(began) - 1)
  state, view = m[15] or state, m[16] or view
end
-- One that an earlier version has made is in no list yet.
local updated = redis.call('ZSCORE', (lists(prefix, m[2], m[4])), ARGV[1]) or redis.call('TIME')[1] * 1000
return { m[3], m[4], m[5], m[6], m[7], state or '', view_of(view), m[10] or '', m[11] or '', m[12] or '',
  head, string.format('%.0f', tonumber(updated)), began, m[17] }
