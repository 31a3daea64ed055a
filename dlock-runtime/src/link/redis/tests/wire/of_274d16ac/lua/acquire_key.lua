-- acquire_key: as acquire, with the lock's key alone (by_key.lua). Whoever waits in the queue is not
-- seen.
-- KEYS  1 the lock
-- ARGV  1 value, 2 lease ms, 3 not_after µs, 4 ttl ms to set on a key without one (0: leave it), 5
--       '1': the caller may queue
-- reply as for acquire, with an epoch of 0; {3, …}: busy, not queued
return acquire(KEYS[1], nil, nil, nil, ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5] == '1', nil)
