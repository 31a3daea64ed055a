-- acquire_all: takes several exclusive locks if each is free and has an empty queue; otherwise
-- takes none. Never queues. The client sends it once per value. It creates nothing after not_after.
-- If the server executes it twice, the second run replies with the time left.
-- KEYS  1 the epoch counter, then for each lock: the lock, queue and heartbeats (see queue.lua)
-- ARGV  1 not_after µs, 2 lease ms, then the value for each lock, and the fleet's secret (see
--       grant.lua)
-- reply {1, T, epoch}        all granted: the first lock has this epoch, the next ones those after
--                            it
--       {2, T, i, left, entry}  nothing taken: lock i (from 0) is held by another, or has a queue;
--                            left and entry as for acquire.lua
--       {4, T, epoch, left}  the values already hold all locks: this command was duplicated; left
--                            is the shortest
--       {5, T}               late: T is past not_after
--       {10, T}              undecided: more entries had lapsed than one call removes; repeat at
--                            once
local number, ours, left = #ARGV - 3, {}, nil
local function at(i)
  counter, lock, queue, heartbeats = KEYS[1], KEYS[3 * i - 1], KEYS[3 * i], KEYS[3 * i + 1]
  return {value = ARGV[i + 2], letter = 'x'}
end
if T > tonumber(ARGV[1]) then
  return {5, T}
end
for i = 1, number do
  local e = at(i)
  local err = stands_at(e)
  if err then
    return redis.error_reply(err)
  elseif held_as(e) then
    local pttl = redis.call('PTTL', lock)
    left = math.min(left or pttl, pttl)
    ours[#ours + 1] = i
  else
    local more, done = drop_lapsed(), true
    if not more then
      done, more = pcall(grant_all)
    end
    if not done then
      there = OTHER -- an error is in the way, too: asked for alone, the lock says which
    elseif more then
      return {10, T}
    end
    if there or first_entry() then
      local pttl, named = -1, ''
      if there ~= OTHER then
        pttl, named = in_the_way()
      end
      for _, it in ipairs(ours) do
        release(at(it), '0')
      end
      return {2, T, i - 1, pttl, named}
    end
  end
end
local again = #ours == number
if again and left > 0 then
  -- Allowed when memory is out; changes nothing.
  redis.call('PEXPIRE', KEYS[2], redis.call('PTTL', KEYS[2]))
end
-- First, so that the whole call is refused when memory is out.
local epoch = draw_epochs(T, number, string.format('%.0f', T + number - 1))
if again then
  return {4, T, epoch, left}
end
for i = 1, number do
  put(at(i), ARGV[2], epoch)
end
return {1, T, epoch}
