-- poll: what became of a claim in the queue, and a sign of life for it. Never creates: it only grants
-- what is free to the first in the queue, whoever that is. Idempotent.
-- KEYS  1 the lock, 2 the counter of epochs, 3 W and 4 A of the lock (see queue.lua)
-- ARGV  1 value, 2 place: the beginning of its entry, up to the value ('': it has none), 3 the fleet's secret
-- reply {3, T, pttl, value}  still in the queue; pttl -2 and '': free, but the first place can't be read
--       {4, T, epoch, pttl}  ours: granted, and the push was lost or is on its way
--       {6, T}               a value of another type stands there
--       {7, T}               neither: the claim is dead
--       {10, T}              a sign of life at most: more places were dead than one call takes out; repeat it at once
local lock, counter, W, A = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local value, entry = ARGV[1], ARGV[2] ~= '' and ARGV[2] .. ARGV[1]
local T, _ = now(), nil
local held, err = look(lock)
local there = is_other_type(err) and meta(lock) -- holders of another kind
if err and not there then
  return is_other_type(err) and {6, T} or redis.error_reply(err)
end
local waits = entry and redis.call('ZSCORE', W, entry)
if waits then
  beat(W, A, entry, T) -- before the sweep: who polls is alive, also when nobody saw it lapse
end
if there then
  local left, holder = first_holder(lock, T)
  if left then
    return waits and {3, T, left, holder} or {7, T}
  end
  if clear(lock) then
    return {10, T}
  end
end
if not held then
  local more
  held, _, more = grant_next(lock, counter, W, A, T)
  if more then
    return {10, T}
  end
  waits = waits and redis.call('ZSCORE', W, entry)
end
if held == value then
  return yours(lock, counter, T)
elseif waits then
  return {3, T, redis.call('PTTL', lock), held or ''}
end
return {7, T}
