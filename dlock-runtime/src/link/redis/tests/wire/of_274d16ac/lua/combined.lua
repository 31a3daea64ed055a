-- combined: a batch of exclusive releases and acquires from several callers, each with the outcome
-- of its own script. One failing item does not affect the others: after the first write every error
-- becomes that item's reply. The common cases run over all items at once, the rest one by one.
-- KEYS  1 the epoch counter, then for each item: the lock and its queue (see queue.lua). The name
--       of the heartbeats is derived from the queue's, because few calls touch it: the names differ
--       in one letter, at the position where the counter's name has the f of 'fence'.
-- ARGV  1 the number of release runs, 2 of acquire runs; a run is consecutive items with the same
--       parameters. For each release run: item count, keep_until; for each acquire run: item count,
--       lease ms, not_after µs, ttl ms for a key without one, '1' if it may queue, as for acquire;
--       then the value of each item, and the fleet's secret (see queue.lua)
-- reply T (0: no item needed the time), then for each item: the epoch, if it was granted at T;
--       otherwise the reply of its own script; or {9, words}: the item was refused with this error.
--       Of a batch of common cases, where each release found its lock and each acquire was granted
--       at T, only T and the first epoch (0: no acquire): the others are the next ones, in order

-- The runs, each with the parameters that its items share.
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

local at_letter = string.find(counter, '@', 1, true) + 1 -- no namespace contains an @

local function names(i)
  local queue = keys[2 * i + 1]
  return keys[2 * i], counter, queue, string.sub(queue, 1, at_letter - 1) .. 'a' .. string.sub(queue, at_letter + 1)
end

-- Depending on the server version, an error is a string that includes the script's line, or a
-- table.
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

-- Handles the items that combined_fast_path.lua, which precedes this, left open.
each_left(gives, release_item)
if not is_released and releases < number then
  pcall(acquire_free_ones)
end
each_left(takes, acquire_item, replies[1] > 0 and replies[1] or nil)
return replies
