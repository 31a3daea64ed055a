-- release: gives the lock back. Idempotent.
-- KEYS  1 the lock
-- ARGV  1 value
-- reply 1 it was ours, 0 it was not
local found, err = release(KEYS[1], ARGV[1])
if err then
  return redis.error_reply(err)
end
return found
