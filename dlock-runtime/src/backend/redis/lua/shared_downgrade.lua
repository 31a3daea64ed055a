-- shared_downgrade: turns a writer's entry into a reader's, without a gap and with the same token, and lets
-- in those for whom that makes room. Never shortens. Idempotent.
-- KEYS  1 the lock, 2 the counter of epochs, 3 queue and 4 heartbeats of the lock (see queue.lua)
-- ARGV  1 entry, 2 ttl ms, 3 the fleet's secret (see queue.lua)
-- reply 1 it reads now, 0 it does not hold the lock; {the same, 0, 1}, {10, T}: as shared_release
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
  -- The writer goes last, so that a right that is missing loses nobody the lock.
  add(lock, reader_form(form), 1, math.max(ends, T + tonumber(ARGV[2]) * 1000))
  redis.call('ZREM', lock, form)
  settle(lock, there, T)
end
there, more = grant_all(lock, counter, queue, heartbeats, there, T)
local reads = is_writer and form and 1 or 0
return more and {reads, 0, 1} or reads
