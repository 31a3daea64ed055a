-- The time and the epochs, for every script. The server builds each function again on every call,
-- so the parts follow in the order of need: functions that few calls need are defined only where
-- those calls get. An operation is a function over one item; its batch form is a loop over it.
-- Numbers become text by string.format only: Lua itself would write 1.79e+15.

-- The server's time in µs.
local function now()
  local t = redis.call('TIME')
  return t[1] * 1000000 + t[2]
end

-- Draws n consecutive epochs and returns the first: above every earlier epoch and not below the
-- clock, so that epochs rise even after the counter is lost. Its SET is refused when memory is out,
-- unless the script began with a write that is allowed then. The clock is usually ahead of the
-- counter; then one SET is enough.
local function draw_epochs(counter, T, n)
  local last = tonumber(redis.call('SET', counter, string.format('%.0f', T + n - 1), 'GET') or nil)
  if not (last and last >= T and last < 9007199254740991) then
    -- Also if the stored value was not drawn here: not a number, or too large for exact doubles.
    return T
  end
  redis.call('SET', counter, string.format('%.0f', last + n))
  return last + 1
end

