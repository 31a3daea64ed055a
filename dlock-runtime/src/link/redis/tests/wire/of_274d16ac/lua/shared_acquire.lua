-- shared_acquire: takes a lock of a kind with many holders if the entry fits with the current
-- holders and the queue is empty; otherwise enters the queue, if the caller may queue. The client
-- sends it once per entry. It creates nothing after not_after. If the server executes it twice, the
-- second run replies `yours` or keeps the queue entry where it is.
-- KEYS  1 the lock, 2 the epoch counter, 3 queue and 4 heartbeats of the lock (see queue.lua)
-- ARGV  1 entry, 2 lease ms, 3 not_after µs, 4 '1': the caller may queue, 5 the fleet's secret (see
--       queue.lua)
-- reply {1, T, epoch}        granted
--       {2, T, left, entry}  busy, not queued: the caller may not queue, or the stored value has no
--                            time to live or another layout; left: ms until the first holder ends;
--                            entry: that holder; -2 and '': only the queue blocks the lock
--       {3, T, left, entry}  busy, queued
--       {4, T, epoch, left}  the entry already holds the lock: this command was duplicated
--       {5, T}               late: T is past not_after
--       {6, T, other}        a value of another type is stored at the key; other: 1, a set of
--                            another layout
--       {8, T, there}        the lock is held as another kind and the caller may not queue; there:
--                            the meta, or '1|x|' for a string value
--       {10, T}              undecided: more cleanup was needed than one call does; repeat at once
local lock, counter, queue, heartbeats = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local e, may_queue, T = read_entry(ARGV[1]), ARGV[4] == '1', now()
if not e then
  return redis.error_reply(NO_ENTRY)
elseif T > tonumber(ARGV[3]) then
  return {5, T}
end
local there, err = stands_at(lock)
if is_other_type(err) then
  return other_type(lock, T)
elseif err then
  return redis.error_reply(err)
end
-- First, so that the whole call is refused when memory is out.
local epoch = draw_epochs(counter, T, 1)
local more
there, more = drop_lapsed(lock, there, T)
if not more then
  there, more = grant_all(lock, counter, queue, heartbeats, there, T)
end
local yours = yours_among(lock, counter, there, e, T)
if yours or more then
  return yours or {10, T}
end
if may_queue and is_queued(queue, e.value) then
  beat(queue, heartbeats, e.value, T)
  return still_waits(lock, queue, heartbeats, there, T)
end
local head = first_entry(queue)
local other = not may_queue and other_kind(lock, there, e)
if other then
  return {8, T, beginning(other)}
end
-- An owner that holds the lock bypasses the queue: otherwise it would wait for waiters that wait
-- for it.
if (not head or (e.letter == 'o' and there)) and fits(lock, there, e) then
  there, epoch = put(lock, there, e, tonumber(ARGV[2]), epoch, T)
  return {1, T, epoch}
end
local left, named = in_the_way(lock, there, T)
if not may_queue or there == ONE and (left == -1 or is_other_layout(named)) then
  return {2, T, left, named}
end
enter(queue, heartbeats, e.value, epoch, T)
return still_waits(lock, queue, heartbeats, there, T)
