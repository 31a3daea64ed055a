-- shared_downgrade: turns a writer's entry into a reader's with the same token, without releasing
-- the lock in between, and grants the lock to waiters that fit now. Never shortens. Idempotent.
-- KEYS  1 the lock, 2 the epoch counter, 3 queue and 4 heartbeats of the lock (see queue.lua)
-- ARGV  1 entry, 2 ttl ms, 3 the fleet's secret (see queue.lua)
-- reply 1 the entry is a reader now, 0 it does not hold the lock; {1 or 0, 0, 1} and {10, T}: as
--       for shared_release
local lock, counter, queue, heartbeats = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local e, T = read_entry(ARGV[1]), now()
local there, err = stands_at(lock)
if not e or (err and not is_other_type(err)) then
  return redis.error_reply(err or NO_ENTRY)
end
local more
there, more = drop_lapsed(lock, there, T)
if more then
  return {10, T}
end
local form, ends = held_as(lock, there, e, T)
local is_writer = e.letter == 'w'
if is_writer and form == e.value then
  -- The writer is removed last, so that a missing right can't cost the holder its lock.
  add(lock, reader_form(form), 1, math.max(ends, T + tonumber(ARGV[2]) * 1000))
  redis.call('ZREM', lock, form)
  settle(lock, there, T)
end
there, more = grant_all(lock, counter, queue, heartbeats, there, T)
local reads = is_writer and form and 1 or 0
return more and {reads, 0, 1} or reads
