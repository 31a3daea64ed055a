-- shared_release: removes an entry from the set and grants the lock to waiters that fit now.
-- Idempotent.
-- KEYS  1 the lock, 2 the epoch counter, 3 queue and 4 heartbeats of the lock (see queue.lua)
-- ARGV  1 entry, 2 keep_until µs: before that, a retired entry stays (0: no such time), 3 the
--       fleet's secret (see queue.lua)
-- reply {found, rest}; found: the entry held the lock; rest: how many entries of its owner still
--       hold it, 0 for every other kind; {found, rest, 1}: more waiters may fit now than one call
--       grants to
--       {10, T}  undecided: more entries have lapsed than one call removes; repeat at once
local lock, counter, queue, heartbeats = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local e, T = read_entry(ARGV[1]), now()
local there, err = stands_at(lock)
if not e or (err and not is_other_type(err)) then
  return redis.error_reply(err or NO_ENTRY)
end
local found, more
there, more = drop_lapsed(lock, there, T)
if more then
  return {10, T}
end
there, found = give_back(lock, there, e, tonumber(ARGV[2]), T)
local rest = found == 1 and rest_of(lock, there, e) or 0
there, more = grant_all(lock, counter, queue, heartbeats, there, T)
return more and {found, rest, 1} or {found, rest}
