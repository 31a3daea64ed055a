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

-- A new epoch for a lock that is ours, and its PTTL. Begins with a write that changes nothing and is
-- allowed when memory is out; PEXPIRE of 0 or less would delete.
local function yours(lock, counter, T)
  local left = redis.call('PTTL', lock)
  if left > 0 then
    redis.call('PEXPIRE', lock, left)
  end
  return {4, T, draw_epochs(counter, T, 1), left}
end

