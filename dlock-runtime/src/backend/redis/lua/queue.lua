-- The queue of a lock: W holds the waiting entries by arrival (an epoch), A the same by heartbeat (alive
-- until this µs). Both end 7 s after the last sign of life in them. An entry is
-- x|<reply address>|<lease ms>|<value>, the same bytes in W and in A; a command has its value, and what stands
-- before that as its place. The times are those of times.lua.

-- One call handles so many places in all, so that it never blocks the server for long: whoever has more to do says so,
-- and its sender goes on at once.
local budget = PLACES_AT_ONCE

-- Where nobody heard of a grant in this call.
local unheard = {}

-- The address, lease in ms and value of an entry; nothing for one of another kind or version, which
-- only its own clients may touch.
local function read(entry)
  local address, lease, value = string.match(entry, '^x|([^|]*)|(%d+)|(.+)$')
  if not address or #lease > 15 or tonumber(lease) == 0 then
    return nil
  end
  return address, tonumber(lease), value
end

local function leave(W, A, ...)
  redis.call('ZREM', A, ...)
  return redis.call('ZREM', W, ...)
end

-- A sign of life of an entry that is in W. Begins with a write that is allowed when memory is out.
local function beat(W, A, entry, T)
  redis.call('PEXPIRE', W, QUEUE_TTL)
  redis.call('ZADD', A, string.format('%.0f', T + HEARTBEAT), entry)
  redis.call('PEXPIRE', A, QUEUE_TTL)
end

-- A place behind all others. Who may not expire keys fails before anything is written, for nothing may stay without
-- a time to live.
local function enter(W, A, entry, arrival, T)
  redis.call('PEXPIRE', W, QUEUE_TTL)
  redis.call('ZADD', W, 'NX', string.format('%.0f', arrival), entry)
  beat(W, A, entry, T)
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
  local message = lock .. '\n' .. value .. string.format('\n%.0f\n%.0f\n%.0f', epoch, T, lease)
  local heard = redis.pcall('PUBLISH', channel, message .. '\n' .. mac(channel, message))
  return type(heard) == 'table' or heard > 0 or not is_this_server(run_id)
end

-- Takes out the lapsed, but not too many at once; whether there were any.
local function sweep(W, A, T)
  local by = string.format('%.0f', T)
  local lapsed = redis.call('ZRANGE', A, '-inf', by, 'BYSCORE', 'LIMIT', 0, budget)
  if #lapsed > 0 then
    leave(W, A, unpack(lapsed))
    budget = budget - #lapsed
  end
  return #lapsed > 0
end

-- Gives a lock that is absent to the first of W that is alive and hears of it; without an address it
-- has to poll, and finds the grant. The lapsed go first, so that they do not pile up behind a head that
-- can't be read. Without a queue: one look at W, no write; else begins with ZREM, which is allowed when
-- memory is out. Returns the value that now stands at the lock, or false; second, the first of W, if this
-- can't grant it: it is of another kind or version; third, whether the lock is free because this call has handled as many
-- places as it may. T may be nil: most releases have no use for the time.
local function grant_next(lock, counter, W, A, T)
  local head = redis.call('ZRANGE', W, 0, 0)[1]
  if not head then
    return false, nil
  end
  T = T or now()
  if sweep(W, A, T) then
    head = redis.call('ZRANGE', W, 0, 0)[1]
  end
  while head do
    local address, lease, value = read(head)
    if not address then
      return false, head
    elseif budget <= 0 then
      return false, nil, true
    end
    budget = budget - 1
    local alive_until = tonumber(redis.call('ZSCORE', A, head) or 0)
    leave(W, A, head)
    if alive_until > T and not unheard[address] then
      lease = math.min(lease, CLAIM)
      local epoch = draw_epochs(counter, T, 1)
      redis.call('SET', lock, value, 'PX', lease)
      if address == '' or publish(address, lock, value, epoch, T, lease) then
        return value, nil
      end
      unheard[address] = true
      redis.call('DEL', lock)
    end
    head = redis.call('ZRANGE', W, 0, 0)[1]
  end
  return false, nil
end

-- Gives a lock back: 1 if it was this value's, else 0; second, the error where that can't be known; third, what
-- grant_next says third.
-- Before keep_until it stays, as nobody's: a retired value, which answers to no token, for the rest of
-- the time, and nobody is granted. Else the next one is, also where nothing was found: whoever held it
-- may have lapsed. The first writes are DEL or PEXPIRE, for they are allowed when memory is out. T may be
-- nil, as above.
local function release(lock, counter, W, A, value, keep_until, T)
  local held, err = look(lock)
  if is_other_type(err) then
    return 0, nil
  elseif err then
    return nil, err
  end
  if held and held ~= value then
    return 0, nil
  end
  if held and keep_until > 0 then
    T = T or now()
    if keep_until > T then
      redis.call('PEXPIRE', lock, string.format('%.0f', math.ceil((keep_until - T) / 1000)))
      redis.call('SET', lock, '1|-' .. string.gsub(value, '^1|', '', 1), 'KEEPTTL')
      return 1, nil
    end
  end
  if held then
    redis.call('DEL', lock)
  end
  local _, _, more = grant_next(lock, counter, W, A, T)
  return held and 1 or 0, nil, more
end

