-- A lock's queue holds the waiting entries by arrival (an epoch), its heartbeats hold the same by the last one (alive
-- until this µs). Both end 7 s after the last sign of life in them. The times are those of times.lua.

-- One call handles so many places in all, so that it never blocks the server for long: whoever has more to do says so,
-- and its sender goes on at once.
local budget = PLACES_AT_ONCE

-- Where nobody heard of a grant in this call.
local unheard = {}

local function leave(queue, heartbeats, ...)
  redis.call('ZREM', heartbeats, ...)
  return redis.call('ZREM', queue, ...)
end

-- A sign of life of an entry that is in the queue. Begins with a write that is allowed when memory is out.
local function beat(queue, heartbeats, entry, T)
  redis.call('PEXPIRE', queue, QUEUE_TTL)
  redis.call('ZADD', heartbeats, string.format('%.0f', T + HEARTBEAT), entry)
  redis.call('PEXPIRE', heartbeats, QUEUE_TTL)
end

-- A place behind all others. Who may not expire keys fails before anything is written, for nothing may stay without
-- a time to live.
local function enter(queue, heartbeats, entry, arrival, T)
  redis.call('PEXPIRE', queue, QUEUE_TTL)
  redis.call('ZADD', queue, 'NX', string.format('%.0f', arrival), entry)
  beat(queue, heartbeats, entry, T)
end

-- What proves that a script of the fleet published a grant; empty without a secret, which is the last argument of
-- each script that may grant. Nested, for a SHA-1 over secret and message can be continued without the secret.
local function mac(channel, message)
  local secret = ARGV[#ARGV]
  return secret ~= '' and redis.sha1hex(secret .. redis.sha1hex(secret .. channel .. '\n' .. message)) or ''
end

-- Whether this is the server with this run id, as far as it may be asked.
local about_server
local function is_this_server(run_id)
  about_server = about_server or redis.pcall('INFO', 'server')
  local said = type(about_server) == 'string' and run_id ~= ''
  return said and string.find(about_server, 'run_id:' .. run_id, 1, true) ~= nil
end

-- Whether somebody may have heard of a grant. Nobody here, at the server that the waiter is connected to, proves that
-- it is dead, or has lost its place with its connection. Nothing is proved by an error (the ACL forbids the channel),
-- nor by an address at another server: what is published reaches that too, by replication. Then its poll finds the grant.
local function publish(address, lock, value, epoch, T, lease)
  local run_id, channel = string.match(address, '^(%x*);(.+)$')
  if not channel then
    return true
  end
  local message = '1|granted\n' .. lock .. '\n' .. value .. string.format('\n%.0f\n%.0f\n%.0f', epoch, T, lease)
  local heard = redis.pcall('PUBLISH', channel, message .. '\n' .. mac(channel, message))
  return type(heard) == 'table' or heard > 0 or not is_this_server(run_id)
end

-- Takes out the lapsed, but not too many at once; whether there were any.
local function sweep(queue, heartbeats, T)
  local by = string.format('%.0f', T)
  local lapsed = redis.call('ZRANGE', heartbeats, '-inf', by, 'BYSCORE', 'LIMIT', 0, budget)
  if #lapsed > 0 then
    leave(queue, heartbeats, unpack(lapsed))
    budget = budget - #lapsed
  end
  return #lapsed > 0
end

local function first_place(queue)
  return redis.call('ZRANGE', queue, 0, 0)[1]
end

