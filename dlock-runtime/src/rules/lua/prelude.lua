-- What the scripts begin with. The server builds each function again on every call, so the sections
-- (each begins with its name behind `--@`) follow in the order of need, which lua.rs gives:
-- functions that few calls need are defined only where those calls get. An operation is a function over
-- one item; its batch form is a loop over it. Numbers become text by string.format only: Lua itself
-- would write 1.79e+15.

--@ time
-- The server's time in µs.
local time = redis.call('TIME')
local T = time[1] * 1000000 + time[2]

--@ lock
-- The lock at hand, by its keys: the lock itself, and the epoch counter, if it is at hand. A batch sets
-- these and the following ones for each of its items.
local lock, counter = KEYS[1], KEYS[2]

--@ state
-- Its queue and heartbeats (queue.lua).
local queue, heartbeats = KEYS[3], KEYS[4]

-- Only the lock's key is at hand: its slot is moving.
local is_by_key = not counter

-- What is stored at the lock (lock.lua): ONE for a string, OTHER for another program's value, the meta
-- of a set, false for nothing, nil if nobody has looked; and the string.
local ONE, OTHER = 'a value', 'another type'
local there, held

-- The times of rules/queue.rs (a test compares them): µs, ms, ms, a number of queue entries, and µs.
local HEARTBEAT, CLAIM, QUEUE_TTL, ENTRIES_AT_ONCE, STEP_BACK = 3500000, 3000, 7000, 200, 1000000

-- The number of entries that this call may still handle, over all its locks, so that no call blocks
-- the server for long. A call that has more to do says so in its reply, and the client continues at
-- once.
local budget = ENTRIES_AT_ONCE

--@ draw
-- Draws n consecutive epochs and returns the first: above every earlier epoch and not below `least`
-- (the clock, so that epochs rise even after the counter is lost). `text` is the last one, if the
-- counter is behind; the second result is the last one that was drawn. The SET is refused when memory
-- is out, unless the script began with a write that is allowed then. The clock is usually ahead of
-- the counter; then one SET is enough.
local function draw_epochs(least, n, text)
  if not counter then
    return 0, '0' -- another command draws it
  end
  local last = tonumber(redis.call('SET', counter, text, 'GET') or nil)
  if not (last and last >= least and last < 9007199254740991) then
    -- Even if the stored value was not drawn here: not a number, or too large for exact doubles.
    return least, text
  end
  text = string.format('%.0f', last + n)
  redis.call('SET', counter, text)
  return last + 1, text
end

--@ digits
-- The server's time, as text: string.format costs as much as two commands.
local digits = time[1] .. string.sub('00000', #time[2]) .. time[2]
