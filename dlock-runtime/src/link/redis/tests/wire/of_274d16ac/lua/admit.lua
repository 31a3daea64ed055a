-- Which holders a lock can have at the same time, and how an entry that fits becomes one.

-- Whether the stored meta is this one, possibly with more fields behind it.
local function is_of(there, meta)
  return there == meta or string.sub(there, 1, #meta + 1) == meta .. '|'
end

-- Whether an entry may hold the lock together with its current holders.
local function fits(lock, there, e)
  if not there then
    return true
  elseif there == ONE or e.letter == 'x' then
    return false
  elseif e.letter == 'o' then
    return is_of(there, e.meta)
  elseif not is_of(there, e.meta) or e.letter == 'w' then
    return false
  elseif e.letter == 'r' then
    return string.sub(redis.call('ZRANGE', lock, 0, 0)[1], 1, 4) == '1|r|'
  end
  return redis.call('ZCARD', lock) - 1 + e.take <= e.of
end

-- The epoch that all entries of one owner share while the owner holds the lock.
local function epoch_of_hold(there)
  return tonumber((string.match(there, '^1|#|o|[^|]*|(%d+)')))
end

-- The epoch of an entry that holds the lock, and `there`. An owner's hold that was taken by its key
-- (by_key.lua) has none before the first command that knows one.
local function epoch_for(lock, there, e, epoch)
  local of_hold = epoch_of_hold(there)
  if of_hold or e.letter ~= 'o' or epoch == 0 then
    return of_hold or epoch, there
  end
  -- ZADD first: without it a set would have no meta.
  local with_epoch = e.meta .. string.format('|%.0f', epoch)
  redis.call('ZADD', lock, 'inf', with_epoch)
  redis.call('ZREM', lock, there)
  return epoch, with_epoch
end

-- Adds the members of an entry; new_meta is given if the set does not exist yet.
local function add(lock, value, take, ends, new_meta)
  local words, behind = {}, 0
  if new_meta then
    words, behind = {'inf', new_meta}, 2
  end
  for i, member in ipairs(members(value, take)) do
    words[behind + 2 * i - 1], words[behind + 2 * i] = string.format('%.0f', ends), member
  end
  redis.call('ZADD', lock, 'GT', unpack(words))
end

-- Gives the lock to an entry that fits. Returns `there` and the epoch. PEXPIRE comes first,
-- although on an absent key it does nothing: a user without the right to it fails before anything
-- is written, so no key is left without a time to live. An epoch of 0 is not known yet (by_key.lua).
local function put(lock, there, e, lease, epoch, T)
  if e.letter == 'x' then
    redis.call('SET', lock, e.value, 'PX', string.format('%.0f', lease))
    return ONE, epoch
  end
  local new_meta = nil
  if not there then
    redis.call('PEXPIRE', lock, CLAIM)
    new_meta = e.meta .. (e.letter == 'o' and epoch > 0 and string.format('|%.0f', epoch) or '')
    there = new_meta
  end
  add(lock, e.value, e.take, T + lease * 1000, new_meta)
  epoch, there = epoch_for(lock, there, e, epoch)
  return settle(lock, there, T), epoch
end

