-- Takes an exclusive lock that is free and that nobody waits for, as acquire.lua answers it.
local function take(lock, counter, value, lease, T)
  local epoch = draw_epochs(counter, T, 1)
  redis.call('SET', lock, value, 'PX', lease)
  return epoch == T and T or {1, T, epoch} -- a list costs more than a number
end

