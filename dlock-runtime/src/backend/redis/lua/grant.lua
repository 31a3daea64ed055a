-- Who may hold a lock beside whom, and who is let in.

-- Whether a meta is this one, or has more behind it.
local function is_of(there, meta)
  return there == meta or string.sub(there, 1, #meta + 1) == meta .. '|'
end

-- Whether an entry may hold the lock beside those who do.
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

-- The epoch that all entries of an owner's hold share.
local function epoch_of_hold(there)
  return tonumber((string.match(there, '^1|#|o|[^|]*|(%d+)')))
end

-- With the meta of a set that is not there yet.
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

-- Gives the lock to an entry that fits. Returns `there`, and the epoch. Who may not expire keys fails before anything
-- is written (of a key that is absent PEXPIRE writes nothing), for nothing may stay without a time to live.
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

-- Grants to the first place that is alive and hears of it, and the next, of whatever kind, as long as they fit; without an
-- address it has to poll, and finds the grant. Nobody passes a head that lives, and none can be let in that can't be read. The
-- lapsed go first, so that they do not pile up behind a head that stays. Without a queue: one look at the queue, no write; else begins with
-- ZREM or SET of an epoch, as what stands there allows. Returns `there`; second, whether the next one has to be looked at by another
-- call, because this one has handled as many as it may. T may be nil where nothing stands: most releases have no use for the time.
local function grant_all(lock, counter, queue, heartbeats, there, T)
  local head = first_place(queue)
  if not head then
    return there, false
  end
  T = T or now()
  if sweep(queue, heartbeats, T) then
    head = first_place(queue)
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
    if alive and not unheard[e.address] then
      budget = budget - (e.letter == 'x' and 0 or e.take)
      local lease, epoch = math.min(e.lease, CLAIM), draw_epochs(counter, T, 1)
      there, epoch = put(lock, there, e, lease, epoch, T)
      if e.address ~= '' and not publish(e.address, lock, e.value, epoch, T, lease) then
        unheard[e.address] = true
        there = take_back(lock, there, e, T)
      elseif there == ONE then
        return there, false
      end
    end
    head = first_place(queue)
  end
  return there, false
end

