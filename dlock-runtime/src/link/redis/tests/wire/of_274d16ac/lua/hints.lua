-- The hints of a lock at a node of a quorum: a sorted set of the channels at which others want to be
-- told that it is free, by arrival (µs). Behind them, as w<channel>, the writers that readers keep
-- out: their scores less BEHIND_ALL say until when each counts as waiting. BEHIND_ALL is longer than
-- any time of arrival, and such that the sum is exact.
-- The others as in policy/quorum/commands.rs (a test compares them): ms, a number, µs, µs.
local BEHIND_ALL, HINTS_TTL, HINTS_AT_ONCE = 4503599627370496, 7000, 3
local WRITER_WAITS, WRITER_COMES = 2500000, 500000

-- Tells one of those who wait that it is worth asking again; a writer that readers kept out comes
-- before all others. One without a channel asks so often that it needs no hint. An error ends this:
-- the user may have no right to publish, and what was done is right all the same.
local function hint(hints, lock, T)
  local from = string.format('%.0f', BEHIND_ALL)
  redis.pcall('ZREMRANGEBYSCORE', hints, from, string.format('%.0f', BEHIND_ALL + T))
  for _ = 1, HINTS_AT_ONCE do
    local writer = redis.pcall('ZRANGE', hints, from, '+inf', 'BYSCORE', 'LIMIT', 0, 1)[1]
    local wants = writer and string.sub(writer, 2) or redis.pcall('ZPOPMIN', hints)[1]
    local reached = wants and wants ~= '-' and redis.pcall('PUBLISH', wants, '1|freed\n' .. lock)
    if not wants or type(reached) == 'table' then
      return
    end
    if writer then
      redis.pcall('ZREM', hints, wants)
    end
    if writer and reached == 0 then
      redis.pcall('ZREM', hints, writer)
    elseif writer then
      -- It has some time to come; then no writer counts as waiting until it asks again.
      local last = string.format('%.0f', BEHIND_ALL + T + WRITER_COMES)
      redis.pcall('ZADD', hints, 'XX', 'LT', last, writer)
      redis.pcall('ZREMRANGEBYSCORE', hints, '(' .. last, '+inf')
    end
    if reached ~= 0 then
      return
    end
  end
end
