-- acquire_all: takes several exclusive locks if each is free and has an empty queue; otherwise
-- takes none. Never queues. The client sends it once per value. It creates nothing after not_after.
-- If the server executes it twice, the second run replies with the time left.
-- KEYS  1 the epoch counter, then for each lock: the lock, queue and heartbeats (see queue.lua)
-- ARGV  1 not_after µs, 2 lease ms, then the value for each lock, and the fleet's secret (see
--       queue.lua)
-- reply {1, T, epoch}        all granted: the first lock has this epoch, the next ones those after
--                            it
--       {2, T, i}            nothing taken: lock i (from 0) is held by another value, or has a
--                            queue
--       {4, T, epoch, pttl}  the values already hold all locks: this command was duplicated; pttl
--                            is the shortest
--       {5, T}               late: T is past not_after
--       {10, T}              undecided: more entries were dead than one call removes; repeat at
--                            once
local counter, T, lease = KEYS[1], now(), ARGV[2]
if T > tonumber(ARGV[1]) then
  return {5, T}
end
local number = #ARGV - 3
local ours, left = {}, nil
for i = 1, number do
  local lock, queue, heartbeats, value = KEYS[3 * i - 1], KEYS[3 * i], KEYS[3 * i + 1], ARGV[i + 2]
  local held, err = look(lock)
  if err and not is_other_type(err) then
    return redis.error_reply(err)
  end
  local there, more = held and ONE or err and (meta(lock) or ONE), nil
  if there ~= ONE then
    there, more = drop_lapsed(lock, there, T)
    if not more then
      there, more = grant_all(lock, counter, queue, heartbeats, there, T)
    end
    if more then
      return {10, T}
    end
  end
  local taken = there or first_entry(queue)
  if held == value then
    local pttl = redis.call('PTTL', lock)
    left = math.min(left or pttl, pttl)
    ours[#ours + 1] = {lock, queue, heartbeats, value}
  elseif taken then
    for _, it in ipairs(ours) do
      release(it[1], counter, it[2], it[3], it[4], 0, T)
    end
    return {2, T, i - 1}
  end
end
local again = #ours == number
if again and left > 0 then
  -- Allowed when memory is out; changes nothing.
  redis.call('PEXPIRE', KEYS[2], redis.call('PTTL', KEYS[2]))
end
-- First, so that the whole call is refused when memory is out.
local epoch = draw_epochs(counter, T, number)
if again then
  return {4, T, epoch, left}
end
for i = 1, number do
  redis.call('SET', KEYS[3 * i - 1], ARGV[i + 2], 'PX', lease)
end
return {1, T, epoch}
