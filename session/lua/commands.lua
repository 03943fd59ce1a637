-- The names of commands that wait.
-- KEYS  1 session  2 inbox
-- Returns {last command that counts, names of those that are done, {name, name, …}}
local m = redis.call('HMGET', KEYS[1], 'cseq', 'done')
return { m[1] or '0', m[2] or '', redis.call('HKEYS', KEYS[2]) }
