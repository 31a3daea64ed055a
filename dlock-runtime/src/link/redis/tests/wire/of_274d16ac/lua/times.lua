-- The times of policy/queue.rs (a test compares them): µs, ms, ms, and a number of queue entries.
local HEARTBEAT, CLAIM, QUEUE_TTL, ENTRIES_AT_ONCE = 3500000, 3000, 7000, 200

