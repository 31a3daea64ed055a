-- The string value at a lock's key, false for an absent key; second, the error if it can't be read.
-- A value of another type is an error too, which saves a TYPE.
local function look(lock)
  local held = redis.pcall('GET', lock)
  if type(held) == 'table' then
    return false, held.err .. ' (GET)' -- before 7.2 the server's error does not name the command
  end
  return held, nil
end

local function is_other_type(err)
  return err ~= nil and string.find(err, 'WRONGTYPE', 1, true) ~= nil
end

-- A value of another layout, or of a kind that this version does not know: its rules are unknown
-- here.
local function is_other_layout(held)
  if string.find(held, '^1|') then
    return string.find(held, '^1|%l|') and not string.find(held, '^1|[xrwpo]|')
  end
  return string.find(held, '^%d+|')
end

-- An entry stands for one attempt: the value of an exclusive lock, a member of the set of a kind
-- with many holders (set.lua), and for both the queue entry; the same bytes everywhere:
-- 1|<kind>|<token>|<address>|<lease ms>|<take>|<of>|<owner>|<host>|<pid>|<function>|<since ms>
-- and any fields that a later version of this layout appends. The kind is x for an exclusive lock,
-- r for a reader, w for a writer, p for permits, o for an owner. Returns nil for an entry of
-- another kind or version, which only its own clients may change. The returned meta has no epoch.
local function read_entry(value)
  local letter, address, lease, take, of, owner =
    string.match(value, '^1|([xrwpo])|[^|]+|([^|]*)|(%d+)|(%d+)|(%d+)|([^|]*)|')
  if not letter or #lease > 15 or #take > 15 or #of > 15 then
    return nil
  end
  lease, take, of = tonumber(lease), tonumber(take), tonumber(of)
  local meta = letter ~= 'x' and '1|#|rw' or nil
  if letter == 'p' then
    if take > of or take > 1000 or of > 4294967295 then
      return nil
    end
    meta = '1|#|p' -- without the number of permits: each entry is admitted by its own `of`
  else
    take = 1
    if letter == 'o' then
      meta = '1|#|o|' .. owner
    end
  end
  if lease == 0 or take == 0 then
    return nil
  end
  return {
    value = value, letter = letter, address = address, lease = lease, take = take, of = of, meta = meta,
  }
end

-- The reply for a lock that the value holds: a new epoch, and the PTTL. Begins with a write that
-- changes nothing and is allowed when memory is out; PEXPIRE with 0 or less would delete the key.
local function yours(lock, counter, T)
  local left = redis.call('PTTL', lock)
  if left > 0 then
    redis.call('PEXPIRE', lock, left)
  end
  return {4, T, draw_epochs(counter, T, 1), left}
end

