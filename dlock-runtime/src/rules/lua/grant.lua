-- Granting the lock to the next waiters.

--@ publish
-- Publishes a grant, or without an epoch that the entry was taken out of the queue. Returns whether the
-- waiter may have received it. No subscriber at the
-- server that the waiter is connected to proves that the waiter is dead, or has lost its connection
-- and its entry with it. An error proves nothing (the ACL may forbid the channel, or INFO), nor does an
-- address at another server, which receives the message by replication; there the waiter's poll
-- finds the grant.
-- The MAC proves that a script of the fleet published it. The secret is the last argument of each
-- script that may grant; if it is empty, so is the MAC. Nested, because a plain SHA-1 over secret and
-- message can be extended without knowing the secret.
local about_server
local function publish(address, value, epoch, lease)
  local run_id, channel = string.match(address, '^(%x*);(.+)$')
  if not channel then
    return true
  end
  local message = '\n' .. lock .. '\n' .. value
  if epoch then
    message = '1|granted' .. message .. '\n' .. epoch .. '\n' .. digits .. '\n' .. lease
  else
    message = '1|evicted' .. message
  end
  local secret, mac = ARGV[#ARGV], ''
  if secret ~= '' then
    mac = redis.sha1hex(secret .. redis.sha1hex(secret .. channel .. '\n' .. message))
  end
  local heard = redis.pcall('PUBLISH', channel, message .. '\n' .. mac)
  if type(heard) == 'table' or heard > 0 then
    return true
  end
  about_server = about_server or redis.pcall('INFO', 'server')
  local said = type(about_server) == 'string' and run_id ~= ''
  return not (said and string.find(about_server, 'run_id:' .. run_id, 1, true))
end

--@ next
-- Addresses at which a grant of this call found no subscriber.
local unsubscribed = {}

-- Grants the lock to the first queue entry that is alive and reachable, then to the next ones, of
-- any kind, as long as they fit. An entry without an address polls and finds its grant then. No
-- entry passes a live head that does not fit or can't be parsed: its own clients grant to that one.
-- Lapsed entries are swept out first, so that they do not pile up behind a head that stays. Nobody
-- fits beside a string, which saves the search. With an empty queue this is one read and no write;
-- otherwise the first write is ZREM, or the SET of an epoch. An entry that runs once per period, and was
-- run within it, leaves the queue, and is told. Returns whether the budget of this call
-- is used up and another call must go on.
local function grant_all()
  local head = there ~= ONE and there ~= OTHER and first_entry()
  if not head then
    return false
  end
  if sweep() then
    head = first_entry()
  end
  while head do
    local e = read_entry(head)
    local alive = is_alive(head)
    if alive and not (e and fits(e)) then
      return false
    elseif budget <= 0 then
      return true
    end
    budget = budget - 1
    leave(head)
    if alive and not_due(e) then
      publish(e.address, head) -- so that it asks why
    elseif alive and not unsubscribed[e.address] then
      budget = budget - (e.letter == 'x' and 0 or e.take)
      local lease = math.min(e.lease, CLAIM)
      local epoch = put(e, lease, (draw_epochs(T, 1, digits)))
      if e.address ~= '' and not publish(e.address, e.value, string.format('%.0f', epoch), lease) then
        unsubscribed[e.address] = true
        take_out(e, e.value)
      elseif there == ONE then
        return false
      end
    end
    head = first_entry()
  end
  return false
end

--@ after
-- The same behind a release, whose reply an error must not replace: the lock has been given back, and
-- a waiter's poll grants it or says what is wrong.
local function grant_after()
  local done, more = pcall(grant_all)
  return done and more
end
