-- release_key: deletes a lock that the value holds, and touches no other key: for a slot of a cluster
-- that is being moved. Idempotent.
-- KEYS  1 the lock
-- ARGV  1 value
-- reply 1 it held the lock, 0 it did not
local held = redis.pcall('GET', KEYS[1])
if type(held) == 'table' then
  return held
elseif held ~= ARGV[1] then
  return 0
end
return redis.call('DEL', KEYS[1])
