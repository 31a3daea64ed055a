-- The common cases of combined.lua, for all items that are one.
local try, keys, arguments = redis.pcall, KEYS, ARGV
local counter, number = keys[1], (#keys - 1) / 2
local behind = #arguments - number - 1 -- the value of item i is arguments[behind + i]
local replies, open = {0}, number

-- The runs, and what is common to the items of each.
local to, at, gives, takes = 0, 3, {}, {}
for n = 1, tonumber(arguments[1]) do
  gives[n] = {from = to + 1, to = to + arguments[at], keep_until = tonumber(arguments[at + 1])}
  to, at = gives[n].to, at + 2
end
local releases = to
for n = 1, tonumber(arguments[2]) do
  local lease, not_after, repair, queues = unpack(arguments, at + 1, at + 4)
  takes[n] = {
    from = to + 1, to = to + arguments[at],
    lease = lease, not_after = tonumber(not_after), repair = tonumber(repair), queues = queues == '1',
  }
  to, at = takes[n].to, at + 5
end

-- Which locks somebody may wait for, by their number; nil: none.
local function look_at_queues()
  local queues = {}
  for i = 1, number do
    queues[i] = keys[2 * i + 1]
  end
  if try('EXISTS', unpack(queues)) == 0 then
    return nil
  end
  local waited_for = {}
  for i = 1, number do
    waited_for[i] = try('EXISTS', queues[i]) ~= 0
  end
  return waited_for
end

-- Those that are held by their value, have nobody to go to and need not stay. A second one of the same lock
-- has to see what the first did.
local function release_at_once(waited_for)
  local locks, free, left, n = {}, {}, {}, 0
  for i = 1, releases do
    locks[i] = keys[2 * i]
  end
  local values = try('MGET', unpack(locks))
  for _, run in ipairs(gives) do
    for i = run.from, run.to do
      local lock, is_waited_for = locks[i], waited_for and waited_for[i]
      if values[i] == arguments[behind + i] and run.keep_until == 0 and not is_waited_for and not left[lock] then
        n = n + 1
        free[n], replies[i + 1] = lock, 1
      else
        left[lock] = true
      end
    end
  end
  local deleted, seen = n > 0 and try('DEL', unpack(free)), {}
  if deleted == n then
    open = open - n
    return
  end
  for i = 1, releases do -- refused, or one lock is there twice
    local is_refused = type(deleted) == 'table'
    if replies[i + 1] and (is_refused or seen[locks[i]]) then
      replies[i + 1] = nil
    elseif replies[i + 1] then
      open, seen[locks[i]] = open - 1, true
    end
  end
end

-- Those that are free and that nobody waits for. The epochs come first, so that they are refused as a whole
-- when memory is out; what is not used of them was nobody's.
local function acquire_at_once(waited_for)
  local T, first = now(), nil
  replies[1] = T
  for _, run in ipairs(takes) do
    local lease = run.lease
    for i = run.from, T <= run.not_after and run.to or 0 do
      if not waited_for or not waited_for[i] then
        first = first or draw_epochs(counter, T, number - releases)
        local done = try('SET', keys[2 * i], arguments[behind + i], 'NX', 'PX', lease)
        if done and done.ok then
          replies[i + 1], open = first + i - releases - 1, open - 1
        end
      end
    end
  end
end

local waited_for = look_at_queues()
if releases > 0 then
  release_at_once(waited_for)
end
local is_released = open == number - releases -- else the rest of them come first
if is_released and releases < number then
  pcall(acquire_at_once, waited_for)
end
if open == 0 then
  return replies
end

