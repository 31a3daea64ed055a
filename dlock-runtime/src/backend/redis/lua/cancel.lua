-- cancel: leaves the queue and gives the lock back, for a value whose acquire may still be on its way.
-- Idempotent; repeated until conclusive.
-- KEYS  1 the lock, 2 the counter of epochs, 3 queue and 4 heartbeats of the lock (see queue.lua)
-- ARGV  1 value, 2 '1': it may be in the queue, 3 keep_until µs as for release,
--       4 not_after µs of its acquire (0: it was answered), 5 the fleet's secret (see queue.lua)
-- reply {found, conclusive, T}; found: it was in the queue, or held the lock; {…, 0, 1}: more places were dead than
--       one call takes out, and nobody has the lock yet
-- The slow path; the common case is cancel_fast_path.lua, which stands before it.
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
