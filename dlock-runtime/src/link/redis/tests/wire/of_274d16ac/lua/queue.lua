-- A lock's queue holds the waiting entries by arrival (an epoch). Its heartbeats hold the same
-- entries by the time until which they count as alive (µs). Both keys end 7 s after the last
-- heartbeat. times.lua has the times.

-- The number of entries that one call may still handle, over all its locks, so that no call blocks
-- the server for long. A call that has more to do says so in its reply, and the client continues at
-- once.
local budget = ENTRIES_AT_ONCE

local is_by_key = false -- by_key.lua

-- Addresses at which a grant of this call found no subscriber.
local unsubscribed = {}

local function leave(queue, heartbeats, ...)
  redis.call('ZREM', heartbeats, ...)
  return redis.call('ZREM', queue, ...)
end

-- Refreshes a queued entry. The first write is allowed when memory is out.
local function beat(queue, heartbeats, entry, T)
  redis.call('PEXPIRE', queue, QUEUE_TTL)
  redis.call('ZADD', heartbeats, string.format('%.0f', T + HEARTBEAT), entry)
  redis.call('PEXPIRE', heartbeats, QUEUE_TTL)
end

-- Adds an entry to the end of the queue. PEXPIRE comes first, so that a user without the right to
-- it fails before anything is written, and no key is left without a time to live.
local function enter(queue, heartbeats, entry, arrival, T)
  redis.call('PEXPIRE', queue, QUEUE_TTL)
  redis.call('ZADD', queue, 'NX', string.format('%.0f', arrival), entry)
  beat(queue, heartbeats, entry, T)
end

-- The MAC that proves that a script of the fleet published a grant. The secret is the last argument
-- of each script that may grant; if it is empty, so is the MAC. Nested, because a plain SHA-1 over
-- secret and message can be extended without knowing the secret.
local function mac(channel, message)
  local secret = ARGV[#ARGV]
  return secret ~= '' and redis.sha1hex(secret .. redis.sha1hex(secret .. channel .. '\n' .. message)) or ''
end

-- Whether this server has this run id; false if the user may not ask.
local about_server
local function is_this_server(run_id)
  about_server = about_server or redis.pcall('INFO', 'server')
  local said = type(about_server) == 'string' and run_id ~= ''
  return said and string.find(about_server, 'run_id:' .. run_id, 1, true) ~= nil
end

-- Publishes a grant and returns whether the waiter may have received it. No subscriber at the
-- server that the waiter is connected to proves that the waiter is dead, or has lost its connection
-- and its entry with it. An error proves nothing (the ACL may forbid the channel), nor does an
-- address at another server, which receives the message by replication; there the waiter's poll
-- finds the grant.
local function publish(address, lock, value, epoch, T, lease)
  local run_id, channel = string.match(address, '^(%x*);(.+)$')
  if not channel then
    return true
  end
  local message = '1|granted\n' .. lock .. '\n' .. value .. string.format('\n%.0f\n%.0f\n%.0f', epoch, T, lease)
  local heard = redis.pcall('PUBLISH', channel, message .. '\n' .. mac(channel, message))
  return type(heard) == 'table' or heard > 0 or not is_this_server(run_id)
end

-- Removes lapsed entries, at most as many as the budget allows. Returns whether there were any.
local function sweep(queue, heartbeats, T)
  local by = string.format('%.0f', T)
  local lapsed = redis.call('ZRANGE', heartbeats, '-inf', by, 'BYSCORE', 'LIMIT', 0, budget)
  if #lapsed > 0 then
    leave(queue, heartbeats, unpack(lapsed))
    budget = budget - #lapsed
  end
  return #lapsed > 0
end

local function is_queued(queue, entry)
  return redis.call('ZSCORE', queue, entry)
end

local function first_entry(queue)
  return redis.call('ZRANGE', queue, 0, 0)[1]
end

