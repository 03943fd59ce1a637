-- The requests that a session has taken, by idempotency key: one record after the other, oldest first. Who repeats one
-- is told what became of it. All records are of one size, so that they are found, counted and removed by position.
local RECORD, SIZE = '>c12c6c1c2c4I6I6', 37
-- key, fingerprint, via, owner of the key, the command's nonce and number, the log's end when it was taken
local function remembered(known, key)
  local from = string.find(known, key, 1, true)
  while from and from % SIZE ~= 1 do from = string.find(known, key, from + 1, true) end
  if not from then return end
  local _, fingerprint, via, _, nonce, number, head = struct.unpack(RECORD, known, from)
  return { fingerprint = fingerprint, via = via, nonce = nonce, number = number, head = string.format('%d', head) }
end
local function hex(bytes) return string.format('%02x%02x%02x%02x', string.byte(bytes, 1, 4)) end
local function name_of(number, nonce) return string.format('%d-', number) .. hex(nonce) end
local function remember(known, key, fingerprint, via, owner, nonce, number, head)
  return known .. struct.pack(RECORD, key, fingerprint, via, owner, nonce, number, head)
end
-- Forgets the oldest one, of this owner or of anybody, that `waits` does not want.
local function forget_oldest(known, owner, waits)
  for at = 1, #known, SIZE do
    local _, _, _, by, nonce, number = struct.unpack(RECORD, known, at)
    if (not owner or by == owner) and not waits(name_of(number, nonce)) then
      return string.sub(known, 1, at - 1) .. string.sub(known, at + SIZE)
    end
  end
  return known
end
local function count_of(known, owner)
  local count = 0
  for at = 1, #known, SIZE do
    if string.sub(known, at + 19, at + 20) == owner then count = count + 1 end
  end
  return count
end
