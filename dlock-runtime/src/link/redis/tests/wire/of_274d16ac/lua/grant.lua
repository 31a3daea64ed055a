-- The grant to the next waiters.

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

