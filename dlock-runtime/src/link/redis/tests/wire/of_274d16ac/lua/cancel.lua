-- cancel: leaves the queue and releases the lock, for a value whose acquire may still arrive.
-- Idempotent; the client repeats it until the reply is conclusive.
-- KEYS  1 the lock, 2 the epoch counter, 3 queue and 4 heartbeats of the lock (see queue.lua)
-- ARGV  1 value, 2 '1': the value may be queued, 3 keep_until µs as for release, 4 not_after µs of
--       its acquire (0: the acquire was answered), 5 the fleet's secret (see queue.lua)
-- reply {found, conclusive, T}; found: the value was queued, or held the lock; {…, 0, 1}: more
--       entries were dead than one call removes, and the lock has not been granted yet
-- This is the slow path; cancel_fast_path.lua precedes it in the script.
local lock, counter, queue, heartbeats = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local value, T = ARGV[1], now()
local waited = 0
if ARGV[2] == '1' then
  waited = leave(queue, heartbeats, value)
end
local found, err, more = release(lock, counter, queue, heartbeats, value, tonumber(ARGV[3]), T)
if err then
  return redis.error_reply(err)
end
found = math.max(found, waited)
local conclusive = (found == 1 or T > tonumber(ARGV[4])) and 1 or 0
return more and {found, conclusive, T, 0, 1} or {found, conclusive, T}
