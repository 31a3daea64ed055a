-- acquire: takes the lock if nobody holds it and nobody waits for it; else queues, if it has an entry.
-- Sent once for each value; creates nothing after not_after. Executed twice, it says `yours` or keeps
-- its place.
-- KEYS  1 the lock, 2 the counter of epochs, 3 W and 4 A of the lock (see queue.lua)
-- ARGV  1 value, 2 lease ms, 3 not_after µs, 4 ttl ms for a key that has none (0: leave it),
--       5 entry ('': never queue)
-- reply {1, T, epoch}        granted
--       {2, T, pttl, value}  busy, and not in the queue: no entry, no time to live (pttl -1), or a value
--                            of another layout
--       {3, T, pttl, value}  busy, and in the queue; pttl -2 and '': free, but the first place in the
--                            queue can't be read
--       {4, T, epoch, pttl}  ours already: this command was duplicated
--       {5, T}               late
--       {6, T}               a value of another type stands there
--       {8, T, there}        another kind: the meta of the set that stands there (see set.lua), or the first
--                            place in the queue of a key that is free; who has a place already keeps it
local lock, counter, W, A = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local value, lease, repair, entry = ARGV[1], ARGV[2], tonumber(ARGV[4]), ARGV[5]
local T = now()
if T > tonumber(ARGV[3]) then
  return {5, T}
end
local held, err = look(lock)
if is_other_type(err) then
  local there = meta(lock)
  if not there then
    return {6, T}
  end
  local left, holder = first_holder(lock, T)
  if left and entry ~= '' and redis.call('ZSCORE', W, entry) then
    beat(W, A, entry, T)
    return {3, T, left, holder}
  elseif left then
    return {8, T, there}
  end
  redis.call('DEL', lock) -- all its holders have lapsed
elseif err then
  return redis.error_reply(err)
end
if not held then
  local head
  held, head = grant_next(lock, counter, W, A, T)
  if not held and not head then
    local epoch = draw_epochs(counter, T, 1)
    redis.call('SET', lock, value, 'PX', lease)
    return {1, T, epoch}
  elseif head and read_entry(head) and (entry == '' or not redis.call('ZSCORE', W, entry)) then
    return {8, T, without_token(head)}
  end
end
if held == value then
  return yours(lock, counter, T)
end
local left = redis.call('PTTL', lock)
if left == -1 and repair > 0 then
  redis.call('PEXPIRE', lock, repair)
  left = repair
end
held = held or ''
local is_other_layout = string.find(held, '^%d+|') and not string.find(held, '^1|')
if entry == '' or left == -1 or is_other_layout then
  return {2, T, left, held}
end
local arrival = draw_epochs(counter, T, 1) -- first, so that it is refused as a whole when memory is out
redis.call('ZADD', W, 'NX', string.format('%.0f', arrival), entry)
beat(W, A, entry, T)
return {3, T, left, held}
