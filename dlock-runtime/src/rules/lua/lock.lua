-- The lock at hand: a string or a set, behind `fits`, `put`, `take_out` and `held_as` (value.lua). The
-- kinds differ in nothing else.

--@ holders

-- Looks at the lock, first for what the entry would be beside; returns the error if it can't be read.
local function stands_at(e)
  local err
  held = false
  if e.letter ~= 'x' then
    there, err = meta()
    if there ~= nil or (err and not is_other_type(err)) then
      return err
    end
  end
  err = look()
  if not err then
    there = held and ONE
  elseif not is_other_type(err) then
    return err
  else
    there = e.letter == 'x' and meta() or OTHER
  end
end

-- The reply if another type of value is stored, which must not be changed; its third item is 1 for a
-- set of another layout.
local function other_type()
  return {6, T, other_layout or 0}
end

-- What a reply tells of a text that is stored at a key. No entry of ours is longer; a stranger's text
-- may be, and replies with all of it would break the connection of those who ask.
local function beginning(text)
  return text and #text > 4096 and string.sub(text, 1, 4096) or text
end

-- What blocks the lock, as the replies report it: ms left, and a holder's entry or value; -2 and ''
-- if only others that wait do.
local function in_the_way()
  if not there then
    return -2, ''
  elseif there == ONE then
    return redis.call('PTTL', lock), beginning(held)
  end
  local left, named = first_holder()
  return left or 0, beginning(named) or ''
end

-- Whether the stored meta is this one, possibly with more fields behind it.
local function is_of(meta)
  return there == meta or string.sub(there, 1, #meta + 1) == meta .. '|'
end

-- Whether an entry may hold the lock together with its current holders.
local function fits(e)
  if not there then
    return true
  elseif there == ONE or there == OTHER or e.letter == 'x' then
    return false
  elseif e.letter == 'o' then
    return is_of(e.meta)
  elseif not is_of(e.meta) or e.letter == 'w' then
    return false
  elseif e.letter == 'r' then
    return string.sub(redis.call('ZRANGE', lock, 0, 0)[1], 1, 4) == '1|r|'
  end
  return redis.call('ZCARD', lock) - 1 + e.take <= e.of
end

-- The epoch that all entries of one owner share while the owner holds the lock; nil for other kinds.
local function epoch_of_hold()
  return tonumber((string.match(there, '^1|#|o|[^|]*|(%d+)')))
end

-- The epoch of an entry that holds the lock. An owner's hold that was taken by its key alone has none
-- before the first command that knows one.
local function epoch_for(e, epoch)
  local of_hold = epoch_of_hold()
  if of_hold or e.letter ~= 'o' or epoch == 0 then
    return of_hold or epoch
  end
  set_meta(e.meta .. string.format('|%.0f', epoch) .. (string.match(there, '||.*$') or ''))
  return epoch
end

-- Adds the members of an entry; new_meta is given if the set does not exist yet.
local function add(value, take, ends, new_meta)
  local words, behind = {}, 0
  if new_meta then
    words, behind = {'inf', new_meta}, 2
  end
  ends = string.format('%.0f', ends)
  for i, member in ipairs(members(value, take)) do
    words[behind + 2 * i - 1], words[behind + 2 * i] = ends, member
  end
  redis.call('ZADD', lock, 'GT', unpack(words))
end

-- Gives the lock to an entry that fits, for so many ms; returns the epoch. PEXPIRE comes first,
-- although on an absent key it does nothing: a user without the right to it fails before anything is
-- written, so no key is left without a time to live. An epoch of 0 is not known yet (draw_epochs).
local function put(e, lease, epoch)
  if e.letter == 'x' then
    redis.call('SET', lock, e.value, 'PX', lease)
    there, held = ONE, e.value
    return epoch
  end
  local new_meta = nil
  if not there then
    redis.call('PEXPIRE', lock, CLAIM)
    new_meta = e.meta .. (e.letter == 'o' and epoch > 0 and string.format('|%.0f', epoch) or '')
    there = new_meta
  end
  add(e.value, e.take, T + lease * 1000, new_meta)
  note_lease(e.value, tonumber(lease))
  epoch = epoch_for(e, epoch)
  settle()
  return epoch
end

-- Takes out the form in which an entry holds the lock. The first write is allowed when memory is out.
local function take_out(e, form)
  if there == ONE then
    redis.call('DEL', lock)
    there, held = false, false
  else
    redis.call('ZREM', lock, unpack(members(form, e.take)))
    settle()
  end
end

--@ kinds
-- A value of another layout, or of a kind that this version does not know: its rules are unknown
-- here.
local function is_other_layout(value)
  if string.find(value, '^1|') then
    return string.find(value, '^1|%l|') and not string.find(value, '^1|[xrwpo]|')
  end
  return string.find(value, '^%d+|')
end

-- What is stored, if it is another kind; nil otherwise. Of a string value only its kind is
-- returned, because whoever knows the whole value could release the lock.
local function other_kind(e)
  if there == ONE then
    return e.letter ~= 'x' and not is_other_layout(held) and '1|x|' or nil
  elseif not there or e.letter == 'x' then
    return there or nil
  end
  return not is_of(e.letter == 'o' and '1|#|o' or e.meta) and there or nil
end

--@ yours
-- The reply if the entry holds the lock; nil otherwise. A new epoch, or that of an owner's hold, and
-- the ms left, of a set's entry rounded down. Begins with a write that changes nothing and is allowed
-- when memory is out; PEXPIRE with 0 or less would delete the key.
local function yours(e)
  local form, ends = held_as(e)
  if not form then
    return nil
  elseif there == ONE then
    local left = redis.call('PTTL', lock)
    if left > 0 then
      redis.call('PEXPIRE', lock, left)
    end
    return {4, T, (draw_epochs(T, 1, digits)), left}
  end
  local epoch = epoch_of_hold() or epoch_for(e, (draw_epochs(T, 1, digits)))
  return {4, T, epoch, math.floor((ends - T) / 1000)}
end
