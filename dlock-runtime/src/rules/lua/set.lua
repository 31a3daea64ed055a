-- A lock of a kind with many holders is a sorted set at the lock's key. Each member is one holder's
-- entry (value.lua), its score that holder's end in µs. The last member, with score inf, is the
-- meta: 1|#|rw, 1|#|p or 1|#|o|<owner>|<epoch of the hold>; behind an empty field the longest ms
-- that an entry was given beyond its own lease; and any fields that a later version of this layout
-- appends. A sorted set without a meta belongs to another program or another version and is never
-- changed. The scores are authoritative; the key's time to live only ensures that nothing is left
-- behind, and ends no earlier than the last entry.

local function is_meta(member)
  return string.sub(member, 1, 4) == '1|#|'
end

-- The meta of the set at the key; false if the key is absent, nil for a value of any other type.
-- Second, the error if it can't be read. It is asked for by its score: a stranger's set may end with
-- a member of many megabytes, which would be copied each time that somebody asks. One with that score
-- is read, because nothing else tells its length; as no meta of ours is longer than 4 KiB, the set is
-- refused, and nobody waits and reads it again.
local other_layout -- 1: the set that this read last is of another layout
local function meta()
  local last = redis.pcall('ZRANGE', lock, 'inf', 'inf', 'BYSCORE', 'REV', 'LIMIT', 0, 1)
  other_layout = last[1] and string.find(last[1], '^%d+|#|') and 1 or 0
  if last.err then
    return nil, last.err .. ' (ZRANGE)'
  elseif not last[1] then
    return redis.call('PTTL', lock) == -2 and false or nil, nil
  end
  return is_meta(last[1]) and #last[1] <= 4096 and last[1] or nil, nil
end

local function is_set()
  return there and there ~= ONE and there ~= OTHER
end

-- The ms until the first holder ends, rounded up, and the holder to name: a live one rather than a
-- retired entry, if there is one among the first 16. nil: all entries have lapsed, only the key has
-- not expired yet.
local function first_holder()
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

-- Makes the key expire with its last entry, or deletes it. Called after every write to a set. Before
-- 7.2 a server that is interrupted within PEXPIRE for as long as the key is to live deletes it at once,
-- while the script's own time stands still; nobody is interrupted for STALL.
local STALL = 1000
local function settle()
  local last = redis.call('ZRANGE', lock, -2, -2, 'WITHSCORES')
  if not last[1] then
    redis.call('DEL', lock)
    there = false
    return
  end
  local left = math.ceil((tonumber(last[2]) - T) / 1000) + 1
  redis.call('PEXPIRE', lock, string.format('%.0f', left))
  if left < STALL and redis.pcall('EXISTS', lock) == 0 then
    there = false
  end
end

-- Replaces the meta. ZADD first: without it a set would have none.
local function set_meta(to)
  redis.call('ZADD', lock, 'inf', to)
  redis.call('ZREM', lock, there)
  there = to
end

-- The latest time at which an entry can end, unless the clock was set back since it was written. Of
-- one that can't be read, only its own clients know.
local function latest_end(member)
  local own = string.match(member, '^1|%l|[^|]+|[^|]*|(%d+)|') or math.huge
  return T + math.max(own, string.match(there .. '|', '||(%d+)|') or 0) * 1000
end

-- Notes in the meta that an entry gets more ms than its own lease: it is extended, or kept.
local function note_lease(member, ms)
  if T + ms * 1000 > latest_end(member) then
    local before, behind = string.match(there, '^(.-)||%d+(.*)$')
    set_meta((before or there) .. string.format('||%.0f', ms) .. (behind or ''))
  end
end

-- Whether an entry ends later than it can because the clock was set back: then it is behind the last
-- epoch. Without this proof, a build that does not note what it gave beyond an entry's lease wrote it.
local function ends_too_late(member, ends)
  local last = ends > latest_end(member) and counter and redis.pcall('GET', counter)
  last = type(last) == 'string' and tonumber(last)
  return last and last > T + STEP_BACK and last < 9007199254740991
end

-- The clock was set back: no entry stays for as long as the step.
local function cut_ends()
  local all, words = redis.call('ZRANGE', lock, 0, ENTRIES_AT_ONCE - 1, 'WITHSCORES'), {}
  for i = 1, #all, 2 do
    local latest = latest_end(all[i])
    if tonumber(all[i + 1]) > latest and not is_meta(all[i]) then
      words[#words + 1], words[#words + 2] = string.format('%.0f', latest), all[i]
    end
  end
  redis.call('ZADD', lock, unpack(words))
  settle()
end

-- Removes lapsed entries. Returns whether more have lapsed than one call removes, or the key was
-- removed that stands alone, in which case the caller can decide nothing else: in a slot of a cluster
-- that is moving it belongs to the other node. The first write is allowed when memory is out.
local function drop_lapsed()
  if not is_set() then
    return false
  end
  local first = redis.call('ZRANGE', lock, 0, 0, 'WITHSCORES')
  if tonumber(first[2]) > T and not is_meta(first[1]) then
    redis.call('ZREMRANGEBYSCORE', lock, '-inf', digits) -- removes nothing
    if ends_too_late(first[1], tonumber(first[2])) then
      cut_ends()
    end
    return false
  end
  local members = redis.call('ZCARD', lock)
  if members - 1 > budget then
    local beyond = redis.call('ZRANGE', lock, budget, budget, 'WITHSCORES')[2]
    if beyond ~= 'inf' and tonumber(beyond) <= T then
      if budget > 0 then
        redis.call('ZREM', lock, unpack(redis.call('ZRANGE', lock, 0, budget - 1)))
        budget = 0
      end
      return true
    end
  end
  local lapsed = redis.call('ZREMRANGEBYSCORE', lock, '-inf', digits)
  budget = budget - lapsed
  if members - lapsed == 1 then
    redis.call('DEL', lock)
    there = false
    return is_by_key
  end
  return false
end

-- One member per permit, so that the size of the set is the number of permits in use.
local function members(value, take)
  local all = {value}
  for i = 2, take do
    all[i] = value .. string.format('#%d', i)
  end
  return all
end
