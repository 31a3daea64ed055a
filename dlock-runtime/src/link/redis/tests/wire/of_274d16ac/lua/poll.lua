-- poll: reports what became of a queued claim, and refreshes its heartbeat. Never creates; it only
-- grants a free lock to the head of the queue, whoever polls. Idempotent.
-- KEYS  1 the lock, 2 the epoch counter, 3 queue and 4 heartbeats of the lock (see queue.lua)
-- ARGV  1 value, 2 '1': the value may be queued, 3 the fleet's secret
-- reply {3, T, pttl, value}  still queued; pttl -2 and '': the lock is free, but the first queue
--                            entry can't be parsed
--       {4, T, epoch, pttl}  the value holds the lock: the push was lost or is on its way
--       {6, T, other}        a value of another type is stored at the key; other: 1, a set of
--                            another layout
--       {7, T}               neither queued nor holding: the claim is dead
--       {10, T}              at most the heartbeat was refreshed: more entries were dead than one
--                            call removes; repeat at once
local lock, counter, queue, heartbeats = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local value = ARGV[1]
local T, more = now(), nil
local held, err = look(lock)
local there = held and ONE or is_other_type(err) and meta(lock)
if err and not there then
  return is_other_type(err) and other_type(lock, T) or redis.error_reply(err)
end
local waits = ARGV[2] == '1' and is_queued(queue, value)
if waits then
  -- Before the sweep: a polling waiter is alive, even if its heartbeat has lapsed.
  beat(queue, heartbeats, value, T)
end
if there ~= ONE then
  there, more = drop_lapsed(lock, there, T)
  if not more then
    there, more = grant_all(lock, counter, queue, heartbeats, there, T)
  end
  if more then
    return {10, T}
  end
  waits = waits and is_queued(queue, value)
end
local left, named = in_the_way(lock, there, T)
if there == ONE and named == value then
  return yours(lock, counter, T)
elseif waits then
  return {3, T, left, named}
end
return {7, T}
