-- acquire_all: takes several locks if each is free and nobody waits for it; else none. Never queues. Sent once
-- for each value; creates nothing after not_after. Executed twice, it says what is left.
-- KEYS  1 the counter of epochs, then for each lock: the lock, queue and heartbeats (see queue.lua)
-- ARGV  1 not_after µs, 2 lease ms, then the value for each lock, and the fleet's secret (see queue.lua)
-- reply {1, T, epoch}        all granted: the first has this epoch, the next ones those after it
--       {2, T, i}            not granted, and nothing taken: the i-th (from 0) is somebody else's, or waited for
--       {4, T, epoch, pttl}  all ours already: this command was duplicated; the shortest pttl
--       {5, T}               late
--       {10, T}              nothing yet: more places were dead than one call takes out; repeat it at once
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
  local taken = there or first_place(queue)
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
  redis.call('PEXPIRE', KEYS[2], redis.call('PTTL', KEYS[2])) -- allowed when memory is out, and changes nothing
end
local epoch = draw_epochs(counter, T, number) -- first, so that it is refused as a whole when memory is out
if again then
  return {4, T, epoch, left}
end
for i = 1, number do
  redis.call('SET', KEYS[3 * i - 1], ARGV[i + 2], 'PX', lease)
end
return {1, T, epoch}
