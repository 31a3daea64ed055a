-- shared_poll: reports what became of a queued entry, and refreshes its heartbeat. Never creates;
-- it only grants the lock to waiters at the head of the queue that fit, whoever polls, and to an
-- entry of an owner that already holds the lock. Idempotent.
-- KEYS  1 the lock, 2 the epoch counter, 3 queue and 4 heartbeats of the lock (see queue.lua)
-- ARGV  1 entry, 2 '1': the entry may be queued, 3 the fleet's secret (see queue.lua)
-- reply {3, T, left, entry}  still queued; as for shared_acquire
--       {4, T, epoch, left}  the entry holds the lock: the push was lost or is on its way
--       {6, T, other}        a value of another type is stored at the key; other: 1, a set of
--                            another layout
--       {7, T}               neither queued nor holding: the claim is dead
--       {10, T}              at most the heartbeat was refreshed: more work was needed than one
--                            call does; repeat at once
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
local waits = ARGV[2] == '1' and is_queued(queue, e.value)
if waits then
  -- Before the sweep: a polling waiter is alive, even if its heartbeat has lapsed.
  beat(queue, heartbeats, e.value, T)
end
local more
there, more = drop_lapsed(lock, there, T)
if not more then
  there, more = grant_all(lock, counter, queue, heartbeats, there, T)
end
if more then
  return yours_among(lock, counter, there, e, T) or {10, T}
end
if waits and is_queued(queue, e.value) then
  if not (e.letter == 'o' and there and fits(lock, there, e)) then
    return still_waits(lock, queue, heartbeats, there, T)
  end
  leave(queue, heartbeats, e.value)
  there = put(lock, there, e, math.min(e.lease, CLAIM), draw_epochs(counter, T, 1), T)
end
return yours_among(lock, counter, there, e, T) or {7, T}
