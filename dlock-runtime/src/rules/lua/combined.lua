-- combined: a batch of exclusive releases and acquires from several callers, each with the outcome
-- of its own script. One failing item does not affect the others: after the first write every error
-- becomes that item's reply. The common cases run over all items at once, the rest one by one.
-- KEYS  1 the epoch counter, then for each item: the lock and its queue (see queue.lua). The name
--       of the heartbeats is derived from the queue's, because few calls touch it: the names differ
--       in one letter, at the position where the counter's name has the f of 'fence'.
-- ARGV  1 the number of release runs, 2 of acquire runs; a run is consecutive items with the same
--       parameters. For each release run: item count, as 2 of release; for each acquire run: item count,
--       lease ms, not_after µs, ttl ms for a key without one, '1' if it may queue, as for acquire;
--       then the value of each item, and the fleet's secret (see grant.lua)
-- reply T, then for each item: the epoch, if it was granted at T;
--       otherwise the reply of its own script; or {9, words}: the item was refused with this error.
--       Of a batch of common cases, where each release found its lock and each acquire was granted
--       at T, only T and the first epoch (0: no acquire): the others are the next ones, in order

--@ fast
-- The common cases, for all items that match one. Builds no table of runs: most
-- batches have one run of each sort.
local try, keys, arguments = redis.pcall, KEYS, ARGV
local number = math.floor((#keys - 1) / 2) -- in a cluster one more: names.rs
local behind = #arguments - number - 1 -- the value of item i is arguments[behind + i]
local replies, open, first = {T}, number, nil -- `first`: the first epoch that was drawn
-- The index in ARGV where the acquire runs begin.
local releases, first_take = 0, 3 + 2 * arguments[1]
for at = 3, first_take - 1, 2 do
  releases = releases + arguments[at]
end
counter = keys[1]

-- `waited_for[i]`: lock i may have a queue; nil if no lock of the batch has one.
local waited_for, locks = nil, {}
for i = 1, number do
  locks[i] = keys[2 * i + 1]
end
if try('EXISTS', unpack(locks)) ~= 0 then
  waited_for = {}
  for i = 1, number do
    waited_for[i] = try('EXISTS', locks[i]) ~= 0
  end
end

-- Releases of a lock that its value holds, whose queue is empty and that need not be kept. A second
-- release of the same lock goes on below, because it must see the effect of the first.
if releases > 0 then
  local free, left, n, i = {}, {}, 0, 0
  for i = 1, releases do
    locks[i] = keys[2 * i]
  end
  local values = try('MGET', unpack(locks, 1, releases))
  for at = 3, first_take - 1, 2 do
    local may_go = arguments[at + 1] == '0'
    for _ = 1, arguments[at] do
      i = i + 1
      local lock = locks[i]
      if may_go and values[i] == arguments[behind + i] and not left[lock] and not (waited_for and waited_for[i]) then
        n = n + 1
        free[n], replies[i + 1] = lock, 1
      else
        left[lock] = true
      end
    end
  end
  local deleted = n > 0 and try('DEL', unpack(free))
  if deleted == n then
    open = open - n
  else -- the DEL was refused, or the same lock occurs twice
    local is_refused, seen = type(deleted) == 'table', {}
    for i = 1, releases do
      if replies[i + 1] and (is_refused or seen[locks[i]]) then
        replies[i + 1] = nil
      elseif replies[i + 1] then
        open, seen[locks[i]] = open - 1, true
      end
    end
  end
end

-- Acquires of free locks with empty queues. The epochs are drawn first, so that the whole step is
-- refused when memory is out; unused epochs are skipped.
local function acquire_free_ones()
  local i = releases
  first = nil
  for at = first_take, first_take + 5 * arguments[2] - 1, 5 do
    local lease, is_late = arguments[at + 1], T > tonumber(arguments[at + 2])
    for _ = 1, arguments[at] do
      i = i + 1
      if not is_late and not (waited_for and waited_for[i]) then
        first = first or draw_epochs(T, number - releases, string.format('%.0f', T + number - releases - 1))
        local done = try('SET', keys[2 * i], arguments[behind + i], 'NX', 'PX', lease)
        if done and done.ok then
          replies[i + 1], open = first + i - releases - 1, open - 1
        end
      end
    end
  end
end

-- Otherwise the remaining releases come before the acquires.
local is_released = open == number - releases
if is_released and releases < number then
  pcall(acquire_free_ones)
end
if open == 0 then
  return {replies[1], first or 0}
end

--@ refused
-- The reply to an item of a batch that was refused with this error: in Redis 7.2 and later a table with
-- the script's line, in 6.2 a string that has it, between them a string without it.
local function refused(err, script)
  local line = type(err) == 'table' and err.line and ', on @user_script:' .. err.line or ''
  return {9, (type(err) == 'table' and err.err .. line or tostring(err)) .. script}
end

--@ script
local at_letter = string.find(counter, '@', 1, true) + 1 -- no namespace contains an @

local function at(i)
  lock, queue, there = keys[2 * i], keys[2 * i + 1], nil
  heartbeats = string.sub(queue, 1, at_letter - 1) .. 'a' .. string.sub(queue, at_letter + 1)
  return {value = arguments[behind + i], letter = 'x'}
end

local function release_item(i, keep)
  local done, found, _, more, err = pcall(release, at(i), keep)
  if not done or err then
    return refused(err or found, '')
  elseif not found then
    return {10, T}
  end
  return more and {found, 0, 1, 0} or found
end

local function acquire_item(i, lease, not_after, repair, queues)
  local done, answer = pcall(acquire, at(i), lease, tonumber(not_after), tonumber(repair), queues == '1')
  local is_refused = not done or type(answer) == 'table' and answer.err
  return is_refused and refused(answer, '') or answer
end

-- Handles the items that the fast path left open.
local to = 0
local function each_left(from, words, execute, ends)
  for at = from, ends - 1, words do
    for i = to + 1, to + arguments[at] do
      replies[i + 1] = replies[i + 1] or execute(i, unpack(arguments, at + 1, at + words - 1))
    end
    to = to + arguments[at]
  end
end
each_left(3, 2, release_item, first_take)
if not is_released and releases < number then
  pcall(acquire_free_ones)
end
each_left(first_take, 5, acquire_item, first_take + 5 * arguments[2])
return replies
