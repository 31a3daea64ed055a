-- In place of queue.lua and grant.lua, where nobody queues: at a node of a quorum; and in a script
-- about one key alone, since in a slot of a cluster that is moving a lock's counter and queue may be
-- at another node than the lock. There the epoch is 0 (draw_epochs), and a waiter counts as queued.

local function first_entry()
  return nil
end

local function is_queued()
  return true
end

local function leave()
  return 0
end

local function beat() end

local function enter() end

local function grant_all()
  return false
end

local function still_waits(left, named)
  return {3, T, left, named}
end
