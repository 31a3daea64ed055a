-- A lock's queue holds the waiting entries by arrival (an epoch). Its heartbeats hold the same
-- entries by the time until which they count as alive (µs). Both keys end 7 s after the last
-- heartbeat (prelude.lua has the times).

--@ beat
-- Refreshes a queued entry. The first write is allowed when memory is out.
local function beat(entry)
  redis.call('PEXPIRE', queue, QUEUE_TTL)
  redis.call('ZADD', heartbeats, string.format('%.0f', T + HEARTBEAT), entry)
  redis.call('PEXPIRE', heartbeats, QUEUE_TTL)
end

--@ enter
-- Adds an entry to the end of the queue. PEXPIRE comes first, so that a user without the right to
-- it fails before anything is written, and no key is left without a time to live. An entry without a
-- heartbeat is taken out again: what is refused leaves nothing.
local function enter(entry, arrival)
  redis.call('PEXPIRE', queue, QUEUE_TTL)
  redis.call('ZADD', queue, 'NX', arrival, entry)
  if not pcall(beat, entry) then
    redis.call('ZREM', queue, entry)
    beat(entry) -- its error is the reply
  end
end

--@ leave
-- A key of another type has no entry.
local function remove_from(key, ...)
  local removed = redis.pcall('ZREM', key, ...)
  if type(removed) == 'number' then
    return removed
  end
  return string.find(removed.err, 'WRONGTYPE', 1, true) and 0 or redis.call('ZREM', key, ...)
end

local function leave(...)
  remove_from(heartbeats, ...)
  return remove_from(queue, ...)
end

--@ waiters
local function is_queued(entry)
  return redis.call('ZSCORE', queue, entry)
end

local function first_entry()
  return redis.call('ZRANGE', queue, 0, 0)[1]
end

-- Whether an entry counts as alive. A sign of life from the future is none: the clock was set back,
-- and from now on each such entry counts as alive for no longer than any other.
local function is_alive(entry)
  local beaten = tonumber(redis.call('ZSCORE', heartbeats, entry) or 0)
  if beaten > T + HEARTBEAT then
    local after = string.format('(%.0f', T + HEARTBEAT)
    for _, it in ipairs(redis.call('ZRANGE', heartbeats, after, '+inf', 'BYSCORE', 'LIMIT', 0, ENTRIES_AT_ONCE)) do
      beat(it)
    end
  end
  return beaten > T
end

-- Removes lapsed entries, at most as many as the budget allows. Returns whether there were any.
local function sweep()
  local lapsed = redis.call('ZRANGE', heartbeats, '-inf', digits, 'BYSCORE', 'LIMIT', 0, budget)
  if #lapsed > 0 then
    leave(unpack(lapsed))
    budget = budget - #lapsed
  end
  return #lapsed > 0
end

-- The reply to a queued entry: the ms until the first holder ends, or where others fit beside it until
-- the heartbeat of the queue's head lapses, if that is sooner. The waiter polls again then.
local function still_waits(left, named)
  local head = there ~= ONE and left >= 0 and first_entry()
  if head then
    local alive = tonumber(redis.call('ZSCORE', heartbeats, head) or 0)
    left = math.min(left, math.ceil(math.max(alive - T, 0) / 1000))
  end
  return {3, T, left, named}
end
