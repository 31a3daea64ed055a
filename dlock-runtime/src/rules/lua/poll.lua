-- poll: reports what became of a queued entry, and refreshes its heartbeat. Never creates; it only
-- grants the lock to waiters at the head of the queue that fit, whoever polls, and to an entry of an
-- owner that already holds the lock. Idempotent.
-- KEYS  1 the lock, 2 the epoch counter, 3 queue and 4 heartbeats of the lock (see queue.lua); or
--       the lock alone, in a slot that is moving: nobody is granted the lock, and the epoch is 0
-- ARGV  1 entry, 2 '1': the entry may be queued, 3 the fleet's secret (see grant.lua)
-- reply {3, T, left, entry}  still queued; as for acquire.lua
--       {4, T, epoch, left}  the entry holds the lock: the push was lost or is on its way
--       {6, T, other}        a value of another type is stored at the key; other: 1, a set of
--                            another layout
--       {11, T, left, record}  the same as {7, T}, because the entry is not due: as for acquire.lua
--       {7, T}               neither queued nor holding: the claim is dead; by the lock alone, it
--                            would be granted if nobody stood before it
--       {10, T}              at most the heartbeat was refreshed: more entries had lapsed than one
--                            call removes; repeat at once
local e = entry_of(ARGV[1])
local err = stands_at(e)
if err then
  return redis.error_reply(err)
elseif there == OTHER then
  return other_type()
end
local waits = ARGV[2] == '1' and is_queued(e.value)
if waits then
  -- Before the sweep: a polling waiter is alive, even if its heartbeat has lapsed.
  beat(e.value)
end
local more = drop_lapsed() or grant_all()
local reply = yours(e)
if reply or more then
  return reply or {10, T}
elseif waits and budget < ENTRIES_AT_ONCE then
  waits = is_queued(e.value) -- what was granted to it may have been taken back
end
if waits and counter and e.letter == 'o' and there and fits(e) then
  leave(e.value)
  put(e, math.min(e.lease, CLAIM), (draw_epochs(T, 1, digits)))
  return yours(e)
elseif waits and (counter or not fits(e)) then
  return still_waits(in_the_way())
end
return not is_by_key and not_due(read_entry(e.value) or e) or {7, T}
