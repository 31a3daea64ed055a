-- The times of policy/queue.rs: µs, ms, ms, and a number.
local HEARTBEAT, CLAIM, QUEUE_TTL, PLACES_AT_ONCE = 3500000, 3000, 7000, 200

