-- Operations of the kinds with many holders; set.lua has the layout. The kinds differ only in
-- `fits`. The scores are authoritative; the key's time to live only ensures that nothing is left
-- behind, and ends no earlier than the last entry. `there` is the meta of a set, ONE for a value,
-- false for an absent key. Every script begins with a write that is allowed when memory is out,
-- except the acquire, which begins with the counter's SET and is refused as a whole.
local NO_ENTRY = 'ERR that is no entry'

-- Returns `there`; second, an error: a value of another type is stored (`there` is ONE then), or
-- the key can't be read.
local function stands_at(lock)
  local there, err = meta(lock)
  if there ~= nil or (err and not is_other_type(err)) then
    return there, err
  end
  local held
  held, err = look(lock)
  return (held or is_other_type(err)) and ONE or nil, err
end

local function reader_form(value)
  return '1|r' .. string.sub(value, 4)
end

-- The form in which an entry holds the lock, and until when: the entry itself, or the reader that a
-- writer was downgraded to.
local function held_as(lock, there, e, T)
  if not is_set(there) then
    return nil
  end
  local forms = {e.value}
  if e.letter == 'w' then
    forms[2] = reader_form(e.value)
  end
  for _, form in ipairs(forms) do
    local ends = tonumber(redis.call('ZSCORE', lock, form) or 0)
    if ends > T then
      return form, ends
    end
  end
  return nil
end

-- The retired entry that is kept until keep_until and matches no token. An owner's entries share
-- one retired form, which ends with the latest of them, so that the owner's remaining entries need
-- no counting.
local function retired(form, e)
  if e.letter == 'o' then
    return '1|o|-||1|0|0|' .. string.sub(e.meta, 7) .. '|-|0|min_hold|0'
  end
  return string.sub(form, 1, 4) .. '-' .. string.sub(form, 5)
end

-- Removes an entry; before keep_until a retired entry stays, which still counts as a holder.
-- Returns `there`, and 1 if the entry held the lock, otherwise 0.
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

-- How many entries of the same owner still hold the lock; 0 for every other kind.
local function rest_of(lock, there, e)
  if not is_set(there) or e.letter ~= 'o' then
    return 0
  end
  local kept = redis.call('ZSCORE', lock, retired(e.value, e)) and 1 or 0
  return redis.call('ZCARD', lock) - 1 - kept
end

-- What is stored, if it is another kind; nil otherwise. Of a string value only its kind is
-- returned, because whoever knows the whole value could release the lock.
local function other_kind(lock, there, e)
  if there == ONE then
    return not is_other_layout(redis.call('GET', lock)) and '1|x|' or nil
  end
  local is_other = there and not is_of(there, e.meta) and not (e.letter == 'o' and string.sub(there, 1, 6) == '1|#|o|')
  return is_other and there or nil
end

-- The reply to a queued entry: the ms until the first holder ends, or until the heartbeat of the
-- queue's head lapses, if that is sooner. The waiter polls again then.
local function still_waits(lock, queue, heartbeats, there, T)
  local left, holder = in_the_way(lock, there, T)
  local head = first_entry(queue)
  local alive = head and left >= 0 and tonumber(redis.call('ZSCORE', heartbeats, head) or 0)
  if alive then
    left = math.min(left, math.ceil(math.max(alive - T, 0) / 1000))
  end
  return {3, T, left, holder}
end

-- The reply if the entry holds the lock; nil otherwise. The time left is rounded down.
local function yours_among(lock, counter, there, e, T)
  local form, ends = held_as(lock, there, e, T)
  if not form then
    return nil
  end
  local epoch = epoch_of_hold(there) or epoch_for(lock, there, e, draw_epochs(counter, T, 1))
  return {4, T, epoch, math.floor((ends - T) / 1000)}
end

