-- cancel: leaves the queue and releases the lock, for an entry whose acquire may still arrive.
-- Idempotent; the client repeats it until the reply is conclusive.
-- KEYS  1 the lock, 2 the epoch counter, 3 queue and 4 heartbeats of the lock (see queue.lua); or
--       the lock alone, in a slot that is moving, for an entry that is not queued: nobody is granted
--       the lock
-- ARGV  1 entry, 2 '1': the entry may be queued, 3 as 2 of release.lua, 4 not_after µs of its acquire
--       (0: the acquire was answered), 5 the fleet's secret (see grant.lua)
-- reply {found, conclusive, T, rest, more, recorded}; found: the entry was queued, or held the lock;
--       rest, more, recorded and {10, T}: as for release.lua

--@ fast
-- The common case: another value holds the lock, so there is nothing to grant.
held = redis.pcall('GET', lock)
if type(held) == 'string' and held ~= '' and held ~= ARGV[1] then
  local found = ARGV[2] == '1' and leave(ARGV[1]) or 0
  return {found, (found == 1 or T > tonumber(ARGV[4])) and 1 or 0, T}
end

--@ script
local e, waited = entry_of(ARGV[1]), 0
if ARGV[2] == '1' then
  waited = leave(e.value)
end
local found, rest, more, err, noted = release(e, ARGV[3])
if err then
  return redis.error_reply(err)
elseif not found then
  return waited == 1 and {1, 1, T, 0, 1} or {10, T}
end
found = math.max(found, waited)
return {found, (found == 1 or T > tonumber(ARGV[4])) and 1 or 0, T, rest, more and 1 or 0, noted or 0}
