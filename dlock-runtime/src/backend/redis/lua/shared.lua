-- The kinds with many holders; set.lua says what stands where. They differ in `fits`, and in nothing else.
-- The scores are the truth: the key's own time to live is there so that nothing is left behind, and ends no
-- earlier than the last entry. `there` is what stands at the key: the meta of a set, ONE for a value, false
-- for nothing. Every script begins with a write that is allowed when memory is out, but the acquire, which
-- begins with the counter's SET and is refused as a whole.
local ONE, NO_ENTRY = 'a value', 'ERR that is no entry'

-- `there`; second, an error: a value of another type stands there (ONE as well), or it can't be read.
local function stands_at(lock)
  local there, err = meta(lock)
  if there ~= nil or (err and not is_other_type(err)) then
    return there, err
  end
  local held
  held, err = look(lock)
  return (held or is_other_type(err)) and ONE or nil, err
end

local function is_set(there)
  return there and there ~= ONE
end

-- Ends the key with its last entry, or now. Behind every write to a set.
local function settle(lock, there, T)
  local last = redis.call('ZRANGE', lock, -2, -2, 'WITHSCORES')
  if not last[1] then
    redis.call('DEL', lock)
    return false
  end
  redis.call('PEXPIRE', lock, string.format('%.0f', math.ceil((tonumber(last[2]) - T) / 1000) + 1))
  return there
end

-- Returns `there`; second, whether there are more of them than one call takes out, so that nothing else can be decided.
local function drop_lapsed(lock, there, T)
  if not is_set(there) then
    return there, false
  end
  local members = redis.call('ZCARD', lock)
  if members - 1 > budget then
    local beyond = redis.call('ZRANGE', lock, budget, budget, 'WITHSCORES')[2]
    if beyond ~= 'inf' and tonumber(beyond) <= T then
      if budget > 0 then
        redis.call('ZREM', lock, unpack(redis.call('ZRANGE', lock, 0, budget - 1)))
        budget = 0
      end
      return there, true
    end
  end
  local lapsed = redis.call('ZREMRANGEBYSCORE', lock, '-inf', string.format('%.0f', T))
  budget = budget - lapsed
  if members - lapsed == 1 then
    redis.call('DEL', lock)
    return false, false
  end
  return there, false
end

-- One member for each permit, so that the set's size says how many are in use.
local function members(value, take)
  local all = {value}
  for i = 2, take do
    all[i] = value .. string.format('#%d', i)
  end
  return all
end

-- What an entry holds the lock with, and until when: itself, or the reader that a writer was downgraded to.
local function held_as(lock, there, e, T)
  if not is_set(there) then
    return nil
  end
  local forms = {e.value}
  if e.letter == 'w' then
    forms[2] = 'r' .. string.sub(e.value, 2)
  end
  for _, form in ipairs(forms) do
    local ends = tonumber(redis.call('ZSCORE', lock, form) or 0)
    if ends > T then
      return form, ends
    end
  end
  return nil
end

-- Whether an entry may hold the lock beside those who do.
local function fits(lock, there, e)
  if not there then
    return true
  elseif there == ONE or e.letter == 'x' then
    return false
  elseif e.letter == 'o' then
    return string.sub(there, 1, #e.meta + 1) == e.meta .. '|'
  elseif there ~= e.meta or e.letter == 'w' then
    return false
  elseif e.letter == 'r' then
    return string.sub(redis.call('ZRANGE', lock, 0, 0)[1], 1, 2) == 'r|'
  end
  return redis.call('ZCARD', lock) - 1 + e.take <= e.of
end

-- The epoch that all entries of an owner's hold share.
local function epoch_of_hold(there)
  return tonumber((string.match(there, '^#|1|o|[^|]*|(%d+)$')))
end

-- With the meta of a set that is not there yet.
local function add(lock, value, take, ends, new_meta)
  local words, behind = {}, 0
  if new_meta then
    words, behind = {'inf', new_meta}, 2
  end
  for i, member in ipairs(members(value, take)) do
    words[behind + 2 * i - 1], words[behind + 2 * i] = string.format('%.0f', ends), member
  end
  redis.call('ZADD', lock, 'GT', unpack(words))
end

-- What is kept of an entry that is nobody's any more. Of an owner it is the same for all entries, and ends with the
-- latest of them, so that nobody has to count.
local function retired(form, e)
  if e.letter == 'o' then
    return 'o|-||1|0|0|' .. string.sub(e.meta, 7) .. '|-|0|min_hold|0'
  end
  return string.sub(form, 1, 2) .. '-' .. string.sub(form, 3)
end

-- Gives the lock to an entry that fits. Returns `there`, and the epoch. Who may not expire keys fails before anything
-- is written (of a key that is absent PEXPIRE writes nothing), for nothing may stay without a time to live.
local function put(lock, there, e, lease, epoch, T)
  if e.letter == 'x' then
    redis.call('SET', lock, e.value, 'PX', string.format('%.0f', lease))
    return ONE, epoch
  end
  local new_meta = nil
  if not there then
    redis.call('PEXPIRE', lock, CLAIM)
    new_meta = e.meta .. (e.letter == 'o' and string.format('|%.0f', epoch) or '')
    there = new_meta
  end
  add(lock, e.value, e.take, T + lease * 1000, new_meta)
  return settle(lock, there, T), epoch_of_hold(there) or epoch
end

-- Takes an entry out; before keep_until it stays, as nobody's: it counts, and answers to no token. Returns
-- `there`, and 1 if it was there, else 0.
local function give_back(lock, there, e, keep_until, T)
  local form = held_as(lock, there, e, T)
  if not form then
    return there, 0
  end
  redis.call('ZREM', lock, unpack(members(form, e.take)))
  if keep_until > T then
    add(lock, retired(form, e), e.take, keep_until)
  end
  return settle(lock, there, T), 1
end

-- How many entries of its owner hold the lock besides one that was taken out; 0 for every other kind.
local function rest_of(lock, there, e)
  if not is_set(there) or e.letter ~= 'o' then
    return 0
  end
  local kept = redis.call('ZSCORE', lock, retired(e.value, e)) and 1 or 0
  return redis.call('ZCARD', lock) - 1 - kept
end

local function take_back(lock, there, e, T)
  if there == ONE then
    redis.call('DEL', lock)
    return false
  end
  return (give_back(lock, there, e, 0, T))
end

local function first_place(W)
  return redis.call('ZRANGE', W, 0, 0)[1]
end

-- A place in the queue, of whatever kind.
local function read_place(place)
  local address, lease, value = read(place)
  if address then
    return {value = value, letter = 'x', address = address, lease = lease}
  end
  return read_entry(place)
end

-- Grants to the first place, and the next, as long as they fit; the rules are those of grant_next in
-- queue.lua. Nobody passes a head that lives. Returns `there`; second, whether the next one has to be looked at by another
-- call, because this one has handled as many as it may.
local function grant_all(lock, counter, W, A, there, T)
  local head = first_place(W)
  if head and sweep(W, A, T) then
    head = first_place(W)
  end
  while head do
    local e = read_place(head)
    if not e then
      return there, false
    end
    local alive = tonumber(redis.call('ZSCORE', A, head) or 0) > T
    if alive and not fits(lock, there, e) then
      return there, false
    elseif budget <= 0 then
      return there, true
    end
    budget = budget - 1
    leave(W, A, head)
    if alive and not unheard[e.address] then
      budget = budget - (e.take or 1)
      local lease, epoch = math.min(e.lease, CLAIM), draw_epochs(counter, T, 1)
      there, epoch = put(lock, there, e, lease, epoch, T)
      if e.address ~= '' and not publish(e.address, lock, e.value, epoch, T, lease) then
        unheard[e.address] = true
        there = take_back(lock, there, e, T)
      elseif there == ONE then
        return there, false
      end
    end
    head = first_place(W)
  end
  return there, false
end

-- Who is there, if it is another kind: the holders, or the first who waits. Of a value no more than its kind: it is somebody's right to release.
local function other_kind(there, head, e)
  local function differs(meta)
    return meta ~= e.meta and not (e.letter == 'o' and string.sub(meta, 1, 6) == '#|1|o|')
  end
  if there == ONE then
    return '1|'
  elseif there and differs(there) then
    return there
  end
  local waiting = head and read_place(head)
  if not waiting then
    return nil
  elseif waiting.letter == 'x' then
    return 'x|'
  end
  return differs(waiting.meta) and without_token(head) or nil
end

-- Who is in the way, as the replies have it: ms left, and the entry or value of a holder; -2 and '' where
-- only the queue is.
local function in_the_way(lock, there, T)
  if not there then
    return -2, ''
  elseif there == ONE then
    return redis.call('PTTL', lock), redis.call('GET', lock)
  end
  return first_holder(lock, T)
end

-- The reply to who has a place: ms left of the first holder, or of the first place, which may be dead. The end
-- of either is a reason to look again.
local function still_waits(lock, W, A, there, T)
  local left, holder = in_the_way(lock, there, T)
  local head = first_place(W)
  local alive = head and left >= 0 and tonumber(redis.call('ZSCORE', A, head) or 0)
  if alive then
    left = math.min(left, math.ceil(math.max(alive - T, 0) / 1000))
  end
  return {3, T, left, holder}
end

-- The reply to who holds the lock; nil to everybody else. How long it still does is rounded down.
local function yours_among(lock, counter, there, e, T)
  local form, ends = held_as(lock, there, e, T)
  if not form then
    return nil
  end
  local epoch = epoch_of_hold(there) or draw_epochs(counter, T, 1)
  return {4, T, epoch, math.floor((ends - T) / 1000)}
end

