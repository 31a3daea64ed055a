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

-- The first of n epochs in a row: above every epoch before them, and above the clock, so that they grow
-- after a loss of the counter too. Its SET is refused when memory is out, unless the script has begun with
-- a write that is not. Nearly always the clock is ahead of the counter, so that one SET does.
local function draw_epochs(counter, T, n)
  local function set(first)
    return redis.call('SET', counter, string.format('%.0f', first + n - 1), 'GET')
  end
  local last = tonumber(set(T) or nil)
  if not (last and last >= T and last < 9007199254740991) then
    return T -- also if nobody drew what was there: no number, or so large that a double can't count on
  end
  set(last + 1)
  return last + 1
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

