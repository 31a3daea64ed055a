-- Which holders a lock can have at the same time, and the grant to the next waiters.

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
-- is written, so no key is left without a time to live.
local function put(lock, there, e, lease, epoch, T)
  if e.letter == 'x' then
    redis.call('SET', lock, e.value, 'PX', string.format('%.0f', lease))
    return ONE, epoch
  end
  local new_meta = nil
  if not there then
    redis.call('PEXPIRE', lock, CLAIM)
    new_meta = e.meta .. (e.letter == 'o' and string.format('|%.0f', epoch) or '')
    there = new_meta
  end
  add(lock, e.value, e.take, T + lease * 1000, new_meta)
  return settle(lock, there, T), epoch_of_hold(there) or epoch
end

local function take_back(lock, there, e, T)
  if there == ONE then
    redis.call('DEL', lock)
    return false
  end
  redis.call('ZREM', lock, unpack(members(e.value, e.take)))
  return settle(lock, there, T)
end

-- Grants the lock to the first queue entry that is alive and reachable, then to the next ones, of
-- any kind, as long as they fit. An entry without an address polls and finds its grant then. No
-- entry passes a live head that does not fit, nor a head that can't be parsed. Lapsed entries are
-- swept out first, so that they do not pile up behind a head that stays. With an empty queue this
-- is one read and no write; otherwise the first write is ZREM, or the SET of an epoch. Returns
-- `there`; second, whether the budget of this call is used up and another call must go on. T may be
-- nil if the key is absent, because most releases do not need the time.
local function grant_all(lock, counter, queue, heartbeats, there, T)
  local head = first_entry(queue)
  if not head then
    return there, false
  end
  T = T or now()
  if sweep(queue, heartbeats, T) then
    head = first_entry(queue)
  end
  while head do
    local e = read_entry(head)
    if not e then
      return there, false
    end
    local alive = tonumber(redis.call('ZSCORE', heartbeats, head) or 0) > T
    if alive and not fits(lock, there, e) then
      return there, false
    elseif budget <= 0 then
      return there, true
    end
    budget = budget - 1
    leave(queue, heartbeats, head)
    if alive and not unsubscribed[e.address] then
      budget = budget - (e.letter == 'x' and 0 or e.take)
      local lease, epoch = math.min(e.lease, CLAIM), draw_epochs(counter, T, 1)
      there, epoch = put(lock, there, e, lease, epoch, T)
      if e.address ~= '' and not publish(e.address, lock, e.value, epoch, T, lease) then
        unsubscribed[e.address] = true
        there = take_back(lock, there, e, T)
      elseif there == ONE then
        return there, false
      end
    end
    head = first_entry(queue)
  end
  return there, false
end

