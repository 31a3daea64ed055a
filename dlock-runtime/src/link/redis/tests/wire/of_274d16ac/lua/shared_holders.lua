-- shared_holders: the holder of a lock of a kind with many holders. Writes nothing.
-- KEYS  1 the lock
-- ARGV  1 entry, or ''
-- reply {found, entry}; found: 1 if the given entry holds the lock, otherwise 0; entry: a holder's,
--       '' if there is none
--       {-1, '', other}  a value of another type is stored at the key; other: 1, a set of another
--                        layout
local e, T = read_entry(ARGV[1]), now()
local there, err = stands_at(KEYS[1])
if is_other_type(err) then
  return {-1, '', other_type(KEYS[1], T)[3]}
elseif err then
  return redis.error_reply(err)
end
local _, named = in_the_way(KEYS[1], there, T)
return {e and held_as(KEYS[1], there, e, T) and 1 or 0, named or ''}
