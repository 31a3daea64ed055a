-- combined: releases and acquires of exclusive locks that several callers asked for at about the same time, each
-- with the outcome that its own script would have. One that fails hurts no other: nothing is raised past the
-- first write. What most of them need is done for all at once, the rest one by one.
-- KEYS  1 the counter of epochs, then for each item: the lock and its queue (see queue.lua). The heartbeats are named after the queue, since few
--       calls touch it: the same but for one letter, which stands where the counter's name begins.
-- ARGV  1 how many runs of releases, 2 how many of acquires: items in a row of which the same is asked; of each
--       run of releases: how many items, keep_until; of each of acquires: how many items, lease ms,
--       not_after µs, ttl ms for a key that has none, whether it may queue, as for acquire; then the value of each item, and
--       the fleet's secret (see queue.lua)
-- reply T (0: nobody asked for the time), then for each: the epoch, if it was granted at T; what its own script
--       replies else; or {9, words}: it was refused with this error

-- The runs, and what is common to the items of each.
local to, gives, takes = 0, {}, {}
for at = 3, first_take - 1, 2 do
  gives[#gives + 1] = {from = to + 1, to = to + arguments[at], keep_until = tonumber(arguments[at + 1])}
  to = to + arguments[at]
end
for at = first_take, first_take + 5 * arguments[2] - 1, 5 do
  local lease, not_after, repair, queues = unpack(arguments, at + 1, at + 4)
  takes[#takes + 1] = {
    from = to + 1, to = to + arguments[at],
    lease = lease, not_after = tonumber(not_after), repair = tonumber(repair), queues = queues == '1',
  }
  to = to + arguments[at]
end

local at_letter = #counter - #'fence' + 1

local function names(i)
  local queue = keys[2 * i + 1]
  return keys[2 * i], counter, queue, string.sub(queue, 1, at_letter - 1) .. 'a' .. string.sub(queue, at_letter + 1)
end

-- An error is a text, with the line of the script, or a table, as versions differ.
local function refused(err)
  local line = type(err) == 'table' and err.line and ', on @user_script:' .. err.line or ''
  return {9, type(err) == 'table' and err.err .. line or tostring(err)}
end

local function release_item(i, run)
  local lock, _, queue, heartbeats = names(i)
  local done, found, err, more = pcall(release, lock, counter, queue, heartbeats, arguments[behind + i], run.keep_until, nil)
  if not (done and found) then
    return refused(done and err or found)
  end
  return more and {found, 0, 1, 0} or found
end

local function acquire_item(i, run, T)
  local lock, _, queue, heartbeats = names(i)
  local value, lease = arguments[behind + i], run.lease
  local done, answer = pcall(acquire, lock, counter, queue, heartbeats, value, lease, run.not_after, run.repair, run.queues, T)
  local is_refused = not done or type(answer) == 'table' and answer.err
  return is_refused and refused(answer) or answer
end

local function each_left(runs, settle, T)
  for _, run in ipairs(runs) do
    for i = run.from, run.to do
      replies[i + 1] = replies[i + 1] or settle(i, run, T)
    end
  end
end

-- What is left after combined_fast_path.lua, which stands before this.
each_left(gives, release_item)
if not is_released and releases < number then
  pcall(acquire_free_ones)
end
each_left(takes, acquire_item, replies[1] > 0 and replies[1] or nil)
return replies
