-- In place of queue.lua and grant.lua, for a script about one key alone: in a slot of a cluster that
-- is moving, a lock's counter and queue may be at another node than the lock. Nobody enters the
-- queue, nobody is granted the lock, and the epoch is 0: another command draws it.

local budget = ENTRIES_AT_ONCE

-- A key that was removed belongs to the other node: nothing follows in the same call.
local is_by_key = true

local function draw_epochs()
  return 0
end

local function first_entry()
  return nil
end

local function is_queued()
  return false
end

local function enter() end

local function grant_all(lock, counter, queue, heartbeats, there)
  return there, false
end

