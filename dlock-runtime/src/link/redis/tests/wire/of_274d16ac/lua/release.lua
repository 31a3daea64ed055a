-- release: releases an exclusive lock and grants it to the next waiter. Idempotent.
-- KEYS  1 the lock, 2 the epoch counter, 3 queue and 4 heartbeats of the lock (see queue.lua)
-- ARGV  1 value, 2 keep_until µs: before that, the key stays as a retired value (0: no such time),
--       3 the fleet's secret (see queue.lua)
-- reply 1 the value held the lock, 0 it did not; or {found, 0, more, refused}; more: 1 if more
--       entries were dead than one call removes, and the lock has not been granted yet; refused: 1
--       if the native delete command was refused, so that the connection stops using it
if unsubscribed_at then
  if not is_this_server(unsubscribed_at) then
    return 1
  end
  redis.call('DEL', lock)
  local _, more = grant_all(lock, counter, queue, heartbeats, false, nil)
  return more and {1, 0, 1, 0} or 1
end
local found, err, more = release(lock, counter, queue, heartbeats, ARGV[1], tonumber(ARGV[2]), nil)
if err then
  return redis.error_reply(err)
end
local is_refused = type(deleted) == 'table' and not is_other_type(deleted.err)
if not more and not is_refused then
  return found
end
return {found, 0, more and 1 or 0, is_refused and 1 or 0}
