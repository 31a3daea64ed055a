-- What stands at a lock's key: its value, false for nothing; second, the error where it can't be
-- read. A value of another type is an error too, and costs no TYPE.
local function look(lock)
  local held = redis.pcall('GET', lock)
  if type(held) == 'table' then
    return false, held.err .. ' (GET)' -- a server before 7.2 does not say which command it was
  end
  return held, nil
end

local function is_other_type(err)
  return err ~= nil and string.find(err, 'WRONGTYPE', 1, true) ~= nil
end

-- A value of another layout, or of a kind that this one does not know: its rules are not known here.
local function is_other_layout(held)
  if string.find(held, '^1|') then
    return string.find(held, '^1|%l|') and not string.find(held, '^1|[xrwpo]|')
  end
  return string.find(held, '^%d+|')
end

-- What stands for one attempt: the value of an exclusive lock, a member of the set of a kind with many holders (set.lua), and
-- for both the place in the queue, the same bytes everywhere:
-- 1|<kind>|<token>|<reply address>|<lease ms>|<take>|<of>|<owner>|<host>|<pid>|<function>|<since ms>, and whatever a later
-- version of this layout puts behind it. The kind of an exclusive lock is x, a reader's r, a writer's w, p takes permits, o
-- is an owner's. nil for one of another kind or version, which only its own clients may touch. Its meta is without the epoch.
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
    meta = '1|#|p' -- without the number: each entry is admitted by its own
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

-- A new epoch for a lock that is ours, and its PTTL. Begins with a write that changes nothing and is
-- allowed when memory is out; PEXPIRE of 0 or less would delete.
local function yours(lock, counter, T)
  local left = redis.call('PTTL', lock)
  if left > 0 then
    redis.call('PEXPIRE', lock, left)
  end
  return {4, T, draw_epochs(counter, T, 1), left}
end

