-- A lock of a kind with many holders is a sorted set at the lock's key. Each member is one holder's
-- entry (value.lua), its score that holder's end in µs. The last member, with score inf, is the
-- meta: 1|#|rw, 1|#|p or 1|#|o|<owner>|<epoch of the hold>, and any fields that a later version of
-- this layout appends. A sorted set without a meta belongs to another program or another version
-- and is never changed.

local function is_meta(member)
  return string.sub(member, 1, 4) == '1|#|'
end

-- The meta of the set at a key; false if the key is absent, nil for a value of any other type.
-- Second, the error if it can't be read.
local function meta(lock)
  local last = redis.pcall('ZRANGE', lock, -1, -1)
  if last.err then
    return nil, last.err .. ' (ZRANGE)'
  elseif not last[1] then
    return false, nil
  end
  return is_meta(last[1]) and last[1] or nil, nil
end

-- The reply if the stored value must not be changed; its third item is 1 for a set of another
-- layout.
local function other_type(lock, T)
  local last = redis.pcall('ZRANGE', lock, -1, -1)
  local is_other_layout = last[1] and string.find(last[1], '^%d+|#|')
  return {6, T, is_other_layout and 1 or 0}
end

-- The ms until the first holder ends, rounded up, and the holder to name: a live one rather than a
-- retired entry, if there is one among the first 16. nil: all entries have lapsed, only the key has
-- not expired yet.
local function first_holder(lock, T)
  local after = string.format('(%.0f', T)
  local first = redis.call('ZRANGE', lock, after, '+inf', 'BYSCORE', 'LIMIT', 0, 1, 'WITHSCORES')
  local named, ends = first[1], first[2]
  if is_meta(named) then
    return nil
  end
  if string.find(named, '^1|.|%-') then
    for _, member in ipairs(redis.call('ZRANGE', lock, after, '+inf', 'BYSCORE', 'LIMIT', 0, 16)) do
      if not string.find(member, '^1|.|%-') and not is_meta(member) then
        named = member
        break
      end
    end
  end
  return math.ceil((tonumber(ends) - T) / 1000), named
end

-- Values of `there`: the meta of a set, ONE for a string value, false for an absent key.
local ONE = 'a value'

local function is_set(there)
  return there and there ~= ONE
end

-- What a reply tells of a text that stands at a key. No entry of ours is longer; a stranger's text
-- may be, and replies with all of it would break the connection of those who ask.
local function beginning(text)
  return text and #text > 4096 and string.sub(text, 1, 4096) or text
end

-- What blocks the lock, as the replies report it: ms left, and a holder's entry or value; -2 and ''
-- if only others that wait do.
local function in_the_way(lock, there, T)
  if not there then
    return -2, ''
  elseif there == ONE then
    return redis.call('PTTL', lock), beginning(redis.call('GET', lock))
  end
  local left, named = first_holder(lock, T)
  return left, beginning(named)
end

-- Makes the key expire with its last entry, or deletes it. Called after every write to a set.
local function settle(lock, there, T)
  local last = redis.call('ZRANGE', lock, -2, -2, 'WITHSCORES')
  if not last[1] then
    redis.call('DEL', lock)
    return false
  end
  redis.call('PEXPIRE', lock, string.format('%.0f', math.ceil((tonumber(last[2]) - T) / 1000) + 1))
  return there
end

-- Removes lapsed entries. Returns `there`; second, whether more have lapsed than one call removes, or
-- the key was removed that stands alone, in which case the caller can decide nothing else.
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
    return false, is_by_key
  end
  return there, false
end

-- One member per permit, so that the size of the set is the number of permits in use.
local function members(value, take)
  local all = {value}
  for i = 2, take do
    all[i] = value .. string.format('#%d', i)
  end
  return all
end

