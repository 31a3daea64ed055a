-- raise: makes the epoch counter at least a number that was drawn from it before.
-- KEYS  1 the epoch counter
-- ARGV  1 the number
-- reply 1
local last = tonumber(redis.call('GET', KEYS[1]) or nil)
if not (last and last >= tonumber(ARGV[1]) and last < 9007199254740991) then
  redis.call('SET', KEYS[1], ARGV[1])
end
return 1
