-- downgrade: turns a writer's entry into a reader's with the same token, without releasing the lock in
-- between, and grants the lock to waiters that fit now. Never shortens. Idempotent.
-- KEYS  1 the lock, 2 the epoch counter, 3 queue and 4 heartbeats of the lock (see queue.lua); or
--       the lock alone, in a slot that is moving: nobody is granted the lock
-- ARGV  1 entry, 2 ttl ms, 3 the fleet's secret (see grant.lua)
-- reply 1 the entry is a reader now, 0 it does not hold the lock; {1 or 0, 0, 1} and {10, T}: as
--       for release.lua

--@ one
-- A writer's entry becomes a reader's with the same token, and never ends sooner. Returns 1 if the
-- entry is a reader now, otherwise 0. The writer is removed last, so that a missing right can't cost
-- the holder its lock.
local function downgrade(e, ttl)
  local form, ends = held_as(e)
  if e.letter ~= 'w' or not form then
    return 0
  elseif form == e.value then
    add('1|r' .. string.sub(form, 4), 1, math.max(ends, T + ttl * 1000))
    note_lease(form, ttl)
    redis.call('ZREM', lock, form)
    settle()
  end
  return 1
end

--@ script
local e = entry_of(ARGV[1])
local err = stands_at(e)
if err then
  return redis.error_reply(err)
elseif drop_lapsed() then
  return {10, T}
end
local reads = downgrade(e, tonumber(ARGV[2]))
return grant_after() and {reads, 0, 1} or reads
