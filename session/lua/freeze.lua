-- Fields cost more than what they hold: nobody works on this session or listens to it, so all of it
-- goes into one string, the number of its last event first.
local function freeze(prefix, id)
  local passing = {
    own = 1, exp = 1, rel = 1, wk = 1, ren = 1, vanished = 1, began = 1, run = 1, cb = 1, done = 1, heard = 1, eb = 1,
    hides = 1, was = 1, by = 1, unc = 1,
    -- Of earlier versions.
    stall = 1, cn = 1,
  }
  local all, kept = redis.call('HGETALL', KEYS[1]), {}
  local head
  for at = 1, #all, 2 do
    if all[at] == 'seq' then head = all[at + 1] end
    if not passing[all[at]] then
      kept[#kept + 1] = all[at]
      kept[#kept + 1] = all[at + 1]
    end
  end
  local parties = redis.call('HGETALL', KEYS[4])
  redis.call('SET', prefix .. 'z:' .. id, head .. ' ' .. cmsgpack.pack({ kept, parties }))
  redis.call('DEL', KEYS[1], KEYS[4])
end
