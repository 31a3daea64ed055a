-- poll: what became of a claim in the queue, and a sign of life for it. Never creates: it only grants
-- what is free to the first in the queue, whoever that is. Idempotent.
-- KEYS  1 the lock, 2 the counter of epochs, 3 queue and 4 heartbeats of the lock (see queue.lua)
-- ARGV  1 value, 2 '1': it may be in the queue, 3 the fleet's secret
-- reply {3, T, pttl, value}  still in the queue; pttl -2 and '': free, but the first place can't be read
--       {4, T, epoch, pttl}  ours: granted, and the push was lost or is on its way
--       {6, T, other}        a value of another type stands there; other: 1, a set of another layout
--       {7, T}               neither: the claim is dead
--       {10, T}              a sign of life at most: more places were dead than one call takes out; repeat it at once
local lock, counter, queue, heartbeats = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local value = ARGV[1]
local T, more = now(), nil
local held, err = look(lock)
local there = held and ONE or is_other_type(err) and meta(lock)
if err and not there then
  return is_other_type(err) and other_type(lock, T) or redis.error_reply(err)
end
local waits = ARGV[2] == '1' and redis.call('ZSCORE', queue, value)
if waits then
  beat(queue, heartbeats, value, T) -- before the sweep: who polls is alive, also when nobody saw it lapse
end
if there ~= ONE then
  there, more = drop_lapsed(lock, there, T)
  if not more then
    there, more = grant_all(lock, counter, queue, heartbeats, there, T)
  end
  if more then
    return {10, T}
  end
  waits = waits and redis.call('ZSCORE', queue, value)
end
local left, named = in_the_way(lock, there, T)
if there == ONE and named == value then
  return yours(lock, counter, T)
elseif waits then
  return {3, T, left, named}
end
return {7, T}
