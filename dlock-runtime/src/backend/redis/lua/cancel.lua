-- cancel: release for a value whose acquire may still be on its way. Idempotent; repeated until
-- conclusive.
-- KEYS  1 the lock
-- ARGV  1 value, 2 not_after µs of its acquire (0: it was answered)
-- reply {found, conclusive, T}
local T = now()
local found, err = release(KEYS[1], ARGV[1])
if err then
  return redis.error_reply(err)
end
if found == 1 or T > tonumber(ARGV[2]) then
  return {found, 1, T}
end
return {found, 0, T}
