-- What may stand at a lock's key instead of a value: the sorted set of a kind with many holders. A member is
-- one holder's entry, its score that holder's end in µs. An entry is
-- <letter>|<token>|<reply address>|<lease ms>|<take>|<of>|<owner>|<description>, the same bytes in the set,
-- in W, in A and in every command; a reader's letter is r, a writer's w, p takes permits, o is an owner's.
-- The last member, at inf, is the meta: #|1|rw, #|1|p or #|1|o|<owner>|<epoch of the hold>. A
-- sorted set without it is foreign: never changed.

-- The fields of an entry; nil for one of another kind or version, which only its own clients may touch.
-- Its meta is without the epoch.
local function read_entry(value)
  local letter, address, lease, take, of, owner =
    string.match(value, '^([rwpo])|[^|]+|([^|]*)|(%d+)|(%d+)|(%d+)|([^|]*)|')
  if not letter or #lease > 15 or #take > 15 or #of > 15 then
    return nil
  end
  lease, take, of = tonumber(lease), tonumber(take), tonumber(of)
  local meta = '#|1|rw'
  if letter == 'p' then
    if take > of or take > 1000 or of > 4294967295 then
      return nil
    end
    meta = '#|1|p' -- without the number: each entry is admitted by its own
  else
    take = 1
    if letter == 'o' then
      meta = '#|1|o|' .. owner
    end
  end
  if lease == 0 or take == 0 then
    return nil
  end
  return {
    value = value, letter = letter, address = address, lease = lease, take = take, of = of, meta = meta,
  }
end

-- The meta of the set at a key; false for a key that is free, nil for a value of any other type. Second, the
-- error where it can't be read.
local function meta(lock)
  local last = redis.pcall('ZRANGE', lock, -1, -1)
  if last.err then
    return nil, last.err .. ' (ZRANGE)'
  elseif not last[1] then
    return false, nil
  end
  return string.sub(last[1], 1, 4) == '#|1|' and last[1] or nil, nil
end

-- How many ms the first of the holders has left, rounded up, and who is named as the holder: one that lives
-- rather than one that is kept for nobody, if one of the first does. nil: all have lapsed, and only the key has not yet.
local function first_holder(lock, T)
  local after = string.format('(%.0f', T)
  local first = redis.call('ZRANGE', lock, after, '+inf', 'BYSCORE', 'LIMIT', 0, 1, 'WITHSCORES')
  local named, ends = first[1], first[2]
  if string.sub(named, 1, 1) == '#' then
    return nil
  end
  if string.sub(named, 2, 3) == '|-' then
    for _, member in ipairs(redis.call('ZRANGE', lock, after, '+inf', 'BYSCORE', 'LIMIT', 0, 16)) do
      if string.sub(member, 2, 3) ~= '|-' and string.sub(member, 1, 1) ~= '#' then
        named = member
        break
      end
    end
  end
  return math.ceil((tonumber(ends) - T) / 1000), named
end

-- A place in the queue as others are told of it: without what grants the right to give it up.
local function without_token(place)
  return (string.gsub(place, '^([rwpo]|)[^|]*|', '%1-|', 1))
end

-- Deletes a set whose holders have all lapsed; whether there are more of them than one call takes out.
local function clear(lock)
  local members = redis.call('ZCARD', lock)
  if members - 1 > budget then
    if budget > 0 then
      redis.call('ZREM', lock, unpack(redis.call('ZRANGE', lock, 0, budget - 1)))
      budget = 0
    end
    return true
  end
  budget = budget - members + 1
  redis.call('DEL', lock)
  return false
end

