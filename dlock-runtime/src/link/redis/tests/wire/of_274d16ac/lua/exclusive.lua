-- Takes one exclusive lock. acquire.lua lists the replies; an error is returned as a reply too.
-- Everything is read and checked before the first write. T may be nil: then the time is read here.
local function acquire(lock, counter, queue, heartbeats, value, lease, not_after, repair, queues, T)
  T = T or now()
  if T > not_after then
    return {5, T}
  end
  local held, err = look(lock)
  local there, epoch, more = held and ONE, nil, nil
  if is_other_type(err) then
    there = meta(lock)
    if not there then
      return other_type(lock, T)
    end
    -- First, so that the whole call is refused when memory is out.
    epoch = draw_epochs(counter, T, 1)
    there, more = drop_lapsed(lock, there, T)
  elseif err then
    return redis.error_reply(err)
  end
  if there ~= ONE and not more then
    there, more = grant_all(lock, counter, queue, heartbeats, there, T)
  end
  if more then
    return {10, T}
  elseif not there and not first_entry(queue) then
    epoch = epoch or draw_epochs(counter, T, 1)
    redis.call('SET', lock, value, 'PX', lease)
    return epoch == T and T or {1, T, epoch} -- a number is a cheaper reply than a list
  elseif is_set(there) and not queues then
    return {8, T, beginning(there)}
  end
  local left, named = in_the_way(lock, there, T)
  if there == ONE and named == value then
    return yours(lock, counter, T)
  elseif left == -1 and repair > 0 then
    redis.call('PEXPIRE', lock, repair)
    left = repair
  end
  if not queues or left == -1 or there == ONE and is_other_layout(named) then
    return {2, T, left, named}
  end
  -- First, so that the whole call is refused when memory is out.
  epoch = epoch or draw_epochs(counter, T, 1)
  enter(queue, heartbeats, value, epoch, T)
  return {3, T, left, named}
end
