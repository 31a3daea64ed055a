-- The time and the epochs, for every script. What comes behind is in the order in which it is needed: what few
-- calls need is made only where they need it, for the server makes each function anew in each call. An
-- operation is a function over one item, so that its batch form is a loop over it. A number becomes text by
-- string.format only: Lua would write 1.79e+15.

-- Server time in microseconds.
local function now()
  local t = redis.call('TIME')
  return t[1] * 1000000 + t[2]
end

-- The first of n epochs in a row: above every epoch before them, and above the clock, so that they grow
-- after a loss of the counter too. Its SET is refused when memory is out, unless the script has begun with
-- a write that is not. Nearly always the clock is ahead of the counter, so that one SET does.
local function draw_epochs(counter, T, n)
  local last = tonumber(redis.call('SET', counter, string.format('%.0f', T + n - 1), 'GET') or nil)
  if not (last and last >= T and last < 9007199254740991) then
    return T -- also if nobody drew what was there: no number, or so large that a double can't count on
  end
  redis.call('SET', counter, string.format('%.0f', last + n))
  return last + 1
end

