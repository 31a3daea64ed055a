-- What every script begins with; queue.lua comes behind it. Each operation is a function over one item,
-- so that its batch form is a loop over it. A number becomes text by string.format only: Lua would
-- write 1.79e+15.

-- Server time in microseconds.
local function now()
  local t = redis.call('TIME')
  return t[1] * 1000000 + t[2]
end

-- What stands at a lock's key: its value, false for nothing; second, the error where it can't be
-- read. A value of another type is an error too, and costs no TYPE.
local function look(lock)
  local held = redis.pcall('GET', lock)
  if type(held) == 'table' then
    return false, held.err
  end
  return held, nil
end

local function is_other_type(err)
  return err ~= nil and string.find(err, 'WRONGTYPE', 1, true) ~= nil
end

-- Above every epoch before it, and above the clock, so that it grows after a loss of the counter too.
-- Its SET is refused when memory is out, unless the script has begun with a write that is not.
local function draw_epoch(counter, T)
  local last = tonumber(redis.call('GET', counter) or '0') or 0
  if not (last >= 0 and last < 9007199254740991) then
    last = 0 -- nobody drew that: no number, or so large that a double can't count on
  end
  local epoch = math.max(last + 1, T)
  redis.call('SET', counter, string.format('%.0f', epoch))
  return epoch
end

-- A new epoch for a lock that is ours, and its PTTL. Begins with a write that changes nothing and is
-- allowed when memory is out; PEXPIRE of 0 or less would delete.
local function yours(lock, counter, T)
  local left = redis.call('PTTL', lock)
  if left > 0 then
    redis.call('PEXPIRE', lock, left)
  end
  return {4, T, draw_epoch(counter, T), left}
end

