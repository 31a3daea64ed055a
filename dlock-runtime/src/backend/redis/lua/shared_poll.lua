-- shared_poll: what became of an entry in the queue, and a sign of life for it. Never creates: it only
-- grants what fits to the first in the queue, whoever that is, and lets in an owner that holds the lock
-- already. Idempotent.
-- KEYS  1 the lock, 2 the counter of epochs, 3 queue and 4 heartbeats of the lock (see queue.lua)
-- ARGV  1 entry, 2 '1': it may be in the queue, 3 the fleet's secret (see queue.lua)
-- reply {3, T, left, entry}  still in the queue; as for shared_acquire
--       {4, T, epoch, left}  ours: granted, and the push was lost or is on its way
--       {6, T, other}        a value of another type stands there; other: 1, a set of another layout
--       {7, T}               neither: the claim is dead
--       {10, T}              a sign of life at most: there was more to do than one call does; repeat it at once
local lock, counter, queue, heartbeats = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local e, T = read_entry(ARGV[1]), now()
if not e then
  return redis.error_reply(NO_ENTRY)
end
local there, err = stands_at(lock)
if is_other_type(err) then
  return other_type(lock, T)
elseif err then
  return redis.error_reply(err)
end
local waits = ARGV[2] == '1' and redis.call('ZSCORE', queue, e.value)
if waits then
  beat(queue, heartbeats, e.value, T) -- before the sweep: who polls is alive, also when nobody saw it lapse
end
local more
there, more = drop_lapsed(lock, there, T)
if not more then
  there, more = grant_all(lock, counter, queue, heartbeats, there, T)
end
if more then
  return yours_among(lock, counter, there, e, T) or {10, T}
end
if waits and redis.call('ZSCORE', queue, e.value) then
  if not (e.letter == 'o' and there and fits(lock, there, e)) then
    return still_waits(lock, queue, heartbeats, there, T)
  end
  leave(queue, heartbeats, e.value)
  there = put(lock, there, e, math.min(e.lease, CLAIM), draw_epochs(counter, T, 1), T)
end
return yours_among(lock, counter, there, e, T) or {7, T}
