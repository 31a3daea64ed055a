-- The epoch counter alone.

--@ draw
-- draw: draws an epoch for a lock that is held already.
-- KEYS  1 the epoch counter
-- reply the epoch
counter = KEYS[1]
return (draw_epochs(T, 1, digits))

--@ raise
-- raise: makes the epoch counter at least a number that was drawn from it before.
-- KEYS  1 the epoch counter
-- ARGV  1 the number
-- reply 1
local last = tonumber(redis.call('GET', KEYS[1]) or nil)
if not (last and last >= tonumber(ARGV[1]) and last < 9007199254740991) then
  redis.call('SET', KEYS[1], ARGV[1])
end
return 1
