-- The common cases of combined.lua, for all items that match one. Builds no table of runs: most
-- batches have one run of each sort.
local try, keys, arguments = redis.pcall, KEYS, ARGV
local counter, number = keys[1], math.floor((#keys - 1) / 2) -- in a cluster one more: names.rs
local behind = #arguments - number - 1 -- the value of item i is arguments[behind + i]
local replies, open, first = {0}, number, nil -- `first`: the first epoch that was drawn
-- The index in ARGV where the acquire runs begin.
local releases, first_take = 0, 3 + 2 * arguments[1]
for at = 3, first_take - 1, 2 do
  releases = releases + arguments[at]
end

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
-- release of the same lock goes to combined.lua, because it must see the effect of the first.
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
  local T, i = now(), releases
  replies[1], first = T, nil
  for at = first_take, first_take + 5 * arguments[2] - 1, 5 do
    local lease, is_late = arguments[at + 1], T > tonumber(arguments[at + 2])
    for _ = 1, arguments[at] do
      i = i + 1
      if not is_late and not (waited_for and waited_for[i]) then
        first = first or draw_epochs(counter, T, number - releases)
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

