-- renew: makes each lease last at least its ttl, if it is still the value's. Never creates, never
-- shortens; one bad key hurts no other. Idempotent.
-- KEYS  the locks
-- ARGV  value and ttl ms of each, in turn
-- reply for each: 1 renewed, 0 not ours, -1 could not be looked at, -2 this is a replica
local function renew(lock, value, ttl)
  local held, err = look(lock)
  if err and not is_other_type(err) then
    return -1
  end
  if held ~= value then
    return 0
  end
  if redis.call('PTTL', lock) < tonumber(ttl) then
    local done = redis.pcall('PEXPIRE', lock, ttl)
    if type(done) == 'table' then
      return string.find(done.err, 'READONLY', 1, true) and -2 or -1
    end
  end
  return 1
end

local replies = {}
for i, lock in ipairs(KEYS) do
  replies[i] = renew(lock, ARGV[2 * i - 1], ARGV[2 * i])
end
return replies
