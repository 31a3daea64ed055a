-- Takes one exclusive lock; what it answers stands in acquire.lua, and an error is a reply too. Everything is
-- read and checked before the first write. T may be nil.
local function acquire(lock, counter, W, A, value, lease, not_after, repair, place, T)
  T = T or now()
  if T > not_after then
    return {5, T}
  end
  local entry = place ~= '' and place .. value or nil
  local held, err = look(lock)
  if is_other_type(err) then
    local there = meta(lock)
    if not there then
      return {6, T}
    end
    local left, holder = first_holder(lock, T)
    if left and entry and redis.call('ZSCORE', W, entry) then
      beat(W, A, entry, T)
      return {3, T, left, holder}
    elseif left then
      return {8, T, there}
    end
    if clear(lock) then
      return {10, T}
    end
  elseif err then
    return redis.error_reply(err)
  end
  if not held then
    local head, more
    held, head, more = grant_next(lock, counter, W, A, T)
    if more then
      return {10, T}
    elseif not held and not head then
      local epoch = draw_epochs(counter, T, 1)
      redis.call('SET', lock, value, 'PX', lease)
      return epoch == T and T or {1, T, epoch} -- a list costs more than a number
    elseif head and read_entry(head) and (not entry or not redis.call('ZSCORE', W, entry)) then
      return {8, T, without_token(head)}
    end
  end
  if held == value then
    return yours(lock, counter, T)
  end
  local left = redis.call('PTTL', lock)
  if left == -1 and repair > 0 then
    redis.call('PEXPIRE', lock, repair)
    left = repair
  end
  held = held or ''
  local is_other_layout = string.find(held, '^%d+|') and not string.find(held, '^1|')
  if not entry or left == -1 or is_other_layout then
    return {2, T, left, held}
  end
  local arrival = draw_epochs(counter, T, 1) -- first, so that it is refused as a whole when memory is out
  enter(W, A, entry, arrival, T)
  return {3, T, left, held}
end
