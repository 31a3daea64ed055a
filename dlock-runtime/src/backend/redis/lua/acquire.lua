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
return acquire(lock, counter, W, A, ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5], nil)
