-- confirm_key: whether an entry of any kind holds the lock, with the lock's key alone (by_key.lua). An
-- owner's hold that has no epoch yet gets the one that was drawn for it.
-- KEYS  1 the lock
-- ARGV  1 value or entry, 2 epoch; 0: none is drawn yet
-- reply the hold's epoch; -1: the entry does not hold the lock
local lock, value, epoch, T = KEYS[1], ARGV[1], tonumber(ARGV[2]), now()
local e = read_entry(value)
local there, err = stands_at(lock)
if err and there ~= ONE then
  return redis.error_reply(err)
elseif there == ONE then
  return redis.pcall('GET', lock) == value and epoch or -1
elseif not (e and held_as(lock, there, e, T)) then
  return -1
end
return (epoch_for(lock, there, e, epoch))
