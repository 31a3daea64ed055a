-- acquire: takes the lock if nobody holds it. Sent once for each value; creates nothing after not_after.
-- KEYS  1 the lock, 2 the counter of epochs
-- ARGV  1 value, 2 ttl ms, 3 not_after µs, 4 ttl ms for a key that has none (0: leave it)
-- reply {1, T, epoch}        granted
--       {2, T, pttl, value}  busy; pttl -1: the key has no time to live
--       {4, T, epoch, pttl}  ours already: this command was duplicated
--       {5, T}               late
--       {6, T}               a value of another type stands there
--       3 is kept for a server with a queue
local lock, counter = KEYS[1], KEYS[2]
local value, ttl, repair = ARGV[1], ARGV[2], tonumber(ARGV[4])
local T = now()
if T > tonumber(ARGV[3]) then
  return {5, T}
end
local held, err = look(lock)
if is_other_type(err) then
  return {6, T}
elseif err then
  return redis.error_reply(err)
elseif held == value then
  return {4, T, draw_epoch(counter, T), redis.call('PTTL', lock)}
elseif held then
  local left = redis.call('PTTL', lock)
  if left == -1 and repair > 0 then
    redis.call('PEXPIRE', lock, repair)
    left = repair
  end
  return {2, T, left, held}
end
local epoch = draw_epoch(counter, T)
redis.call('SET', lock, value, 'PX', ttl)
return {1, T, epoch}
