-- Whether an entry holds a lock.

--@ holders
-- holders: the holder of a lock, and whether an entry of any kind holds it. Writes nothing.
-- KEYS  1 the lock
-- ARGV  1 entry, or ''
-- reply {found, entry}; found: 1 if the given entry holds the lock, otherwise 0; entry: a holder's,
--       '' if there is none
--       {-1, '', other}  a value of another type is stored at the key; other: 1, a set of another
--                        layout
local e = read_entry(ARGV[1]) or {letter = 'r', meta = ''}
local err = stands_at(e)
if err then
  return redis.error_reply(err)
elseif there == OTHER then
  return {-1, '', other_type()[3]}
end
local _, named = in_the_way()
return {e.value and held_as(e) and 1 or 0, named or ''}

--@ confirm
-- confirm_key: whether an entry of any kind holds the lock, with the lock's key alone (no_queue.lua).
-- An owner's hold that has no epoch yet gets the one that was drawn for it.
-- KEYS  1 the lock
-- ARGV  1 entry, 2 epoch; 0: none is drawn yet
-- reply the hold's epoch; -1: the entry does not hold the lock
local e = entry_of(ARGV[1])
local err = stands_at(e)
if err then
  return redis.error_reply(err)
elseif not held_as(e) then
  return -1
end
return there == ONE and tonumber(ARGV[2]) or epoch_for(e, tonumber(ARGV[2]))
