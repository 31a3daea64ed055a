-- shared_cancel: leaves the queue and removes the entry from the set, for an entry whose acquire
-- may still arrive. Idempotent; the client repeats it until the reply is conclusive.
-- KEYS  1 the lock, 2 the epoch counter, 3 queue and 4 heartbeats of the lock (see queue.lua)
-- ARGV  1 entry, 2 '1': the entry may be queued, 3 keep_until µs as for shared_release, 4 not_after
--       µs of its acquire (0: the acquire was answered), 5 the fleet's secret (see queue.lua)
-- reply {found, conclusive, T, rest, more}; found: the entry was queued, or held the lock; rest,
--       more and {10, T}: as for shared_release
local lock, counter, queue, heartbeats = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local e, T = read_entry(ARGV[1]), now()
if not e then
  return redis.error_reply(NO_ENTRY)
end
local waited, found, more = 0, 0, nil
local there, err = stands_at(lock)
if err and not is_other_type(err) then
  return redis.error_reply(err)
end
there, more = drop_lapsed(lock, there, T)
if more then
  return {10, T}
end
if ARGV[2] == '1' then
  waited = leave(queue, heartbeats, e.value)
end
there, found = give_back(lock, there, e, tonumber(ARGV[3]), T)
local rest = found == 1 and rest_of(lock, there, e) or 0
there, more = grant_all(lock, counter, queue, heartbeats, there, T)
found = math.max(found, waited)
return {found, (found == 1 or T > tonumber(ARGV[4])) and 1 or 0, T, rest, more and 1 or 0}
