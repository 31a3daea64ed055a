-- shared_acquire: takes a lock of a kind with many holders if the entry fits beside those who hold it and
-- nobody waits before it; else queues, if it may. Sent once for each entry; creates nothing after not_after.
-- Executed twice, it says `yours` or keeps its place.
-- KEYS  1 the lock, 2 the counter of epochs, 3 queue and 4 heartbeats of the lock (see queue.lua)
-- ARGV  1 entry, 2 lease ms, 3 not_after µs, 4 '1': it may queue, 5 the fleet's secret (see queue.lua)
-- reply {1, T, epoch}        granted
--       {2, T, left, entry}  busy, and not in the queue: it may not, or a value without an end, or of another layout,
--                            stands there; ms until the first holder ends, and who it is; -2
--                            and '': only the queue is in the way
--       {3, T, left, entry}  busy, and in the queue
--       {4, T, epoch, left}  ours already: this command was duplicated
--       {5, T}               late
--       {6, T, other}        a value of another type stands there; other: 1, a set of another layout
--       {8, T, there}        another kind, and it may not queue: the meta, or '1|x|' for a value
--       {10, T}              nothing yet: there was more to tidy up than one call does; repeat it at once
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
local epoch = draw_epochs(counter, T, 1) -- first, so that it is refused as a whole when memory is out
local more
there, more = drop_lapsed(lock, there, T)
if not more then
  there, more = grant_all(lock, counter, queue, heartbeats, there, T)
end
local yours = yours_among(lock, counter, there, e, T)
if yours or more then
  return yours or {10, T}
end
if may_queue and redis.call('ZSCORE', queue, e.value) then
  beat(queue, heartbeats, e.value, T)
  return still_waits(lock, queue, heartbeats, there, T)
end
local head = first_place(queue)
local other = not may_queue and other_kind(lock, there, e)
if other then
  return {8, T, other}
end
-- An owner that holds the lock passes the queue: it would wait for somebody who waits for it.
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
