-- The lists a session is in: of all its principal's, and of those in the same directory.
local function lists(prefix, principal, cwd)
  local all = prefix .. 'ls:' .. string.sub(redis.sha1hex(principal), 1, 16)
  return all, all .. ':' .. string.sub(redis.sha1hex(cwd), 1, 16)
end
local function list(prefix, id, principal, cwd, updated)
  local all, near = lists(prefix, principal, cwd)
  redis.call('ZADD', all, updated, id)
  redis.call('ZADD', near, updated, id)
end
