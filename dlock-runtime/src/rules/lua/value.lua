-- A string at the lock's key, and entries.

local function is_other_type(err)
  return err ~= nil and string.find(err, 'WRONGTYPE', 1, true) ~= nil
end

-- Reads the string at the lock's key, false if there is none; returns the error if it can't be read.
-- A value of another type is an error too, which saves a TYPE. Where the user may, GETRANGE takes the
-- place of GET (reads.rs): of a longer value than ours only the beginning is read, and that of an
-- absent key is empty. Written otherwise, GET stays: for a user who lost that right meanwhile.
local function look()
  held = redis.pcall('GET', lock)
  if type(held) == 'table' and not is_other_type(held.err) then
    held = redis.pcall("GET", lock)
  end
  if type(held) == 'table' then
    local err = held.err .. ' (GET)' -- before 7.2 the server's error does not name the command
    held = false
    return err
  elseif held == '' and redis.call('PTTL', lock) == -2 then
    held = false
  end
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

-- The entry of a caller's value. A value that is not an entry is that of an exclusive lock, as any that
-- is SET at a key, and an exclusive one need not be read.
local function entry_of(value)
  if not string.find(value, '^1|[rwpo]|') then
    return {value = value, letter = 'x'}
  end
  return read_entry(value) or error('that is not an entry', 0)
end

-- The form in which an entry holds the lock: itself, or the reader that a writer was downgraded to;
-- of a set also until when. It is asked for by its name: what is stored may be too long to be read.
-- Third, the error if that can't be known before the lock was looked at; a key of another type has no
-- entry. An exclusive one is compared with what `look` has read.
local function held_as(e)
  if e.letter == 'x' then
    return held == e.value and held
  end
  local ask = there == nil and redis.pcall or redis.call
  for _, form in ipairs(e.letter == 'w' and {e.value, '1|r' .. string.sub(e.value, 4)} or {e.value}) do
    local ends = there ~= false and there ~= ONE and there ~= OTHER and ask('ZSCORE', lock, form)
    if type(ends) == 'table' then
      return nil, nil, not is_other_type(ends.err) and ends.err .. ' (ZSCORE)' or nil
    elseif ends and tonumber(ends) > T then
      return form, tonumber(ends)
    end
  end
end
