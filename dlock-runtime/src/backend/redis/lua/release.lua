-- release: gives the lock back and grants it to the next in the queue. Idempotent.
-- KEYS  1 the lock, 2 the counter of epochs, 3 W and 4 A of the lock (see queue.lua)
-- ARGV  1 value, 2 keep_until µs: before that, the lock stays, as nobody's (0: no such time)
-- reply 1 it was ours, 0 it was not; {the same, 0} if a native call was refused: none of the next need try
if is_given_back then
  grant_next(lock, counter, W, A, nil)
  return 1
end
local found, err = release(lock, counter, W, A, ARGV[1], tonumber(ARGV[2]), nil)
if err then
  return redis.error_reply(err)
end
local is_refused = type(deleted) == 'table' and not is_other_type(deleted.err)
return is_refused and {found, 0} or found
