-- The common cases of combined.lua, for all items that are one.
local counter, number, releases = KEYS[1], (#KEYS - 1) / 3, tonumber(ARGV[1])
local replies, open = {0}, number

local function reply(i, it)
  replies[i + 1], open = it, open - 1
end

-- Where the arguments of an acquire begin.
local function arguments(i)
  return 2 + 2 * releases + 5 * (i - releases - 1)
end

-- Which locks somebody may wait for, by their number.
local function look_at_queues()
  local queues, waited_for = {}, {}
  for i = 1, number do
    queues[i] = KEYS[3 * i]
  end
  if redis.pcall('EXISTS', unpack(queues)) ~= 0 then
    for i = 1, number do
      waited_for[i] = redis.pcall('EXISTS', queues[i]) ~= 0
    end
  end
  return waited_for
end

-- Those that are held by their value, have nobody to go to and need not stay. A second one of the same lock
-- has to see what the first did.
local function release_at_once(waited_for)
  local locks, free, freed, left = {}, {}, {}, {}
  for i = 1, releases do
    locks[i] = KEYS[3 * i - 1]
  end
  local values = redis.pcall('MGET', unpack(locks))
  for i, lock in ipairs(locks) do
    if values[i] == ARGV[2 * i] and ARGV[2 * i + 1] == '0' and not waited_for[i] and not left[lock] then
      free[#free + 1], freed[#freed + 1] = lock, i
    else
      left[lock] = true
    end
  end
  local deleted = #free > 0 and redis.pcall('DEL', unpack(free))
  if type(deleted) == 'number' then
    local is_twice, seen = deleted < #free, {}
    for _, i in ipairs(freed) do
      if not seen[locks[i]] then
        reply(i, 1)
        seen[locks[i]] = is_twice
      end
    end
  end
end

-- Those that are free and that nobody waits for. The epochs come first, so that they are refused as a whole
-- when memory is out; what is not used of them was nobody's.
local function acquire_at_once(waited_for)
  local T, first = now(), nil
  replies[1] = T
  for i = releases + 1, number do
    local at = arguments(i)
    if not waited_for[i] and T <= tonumber(ARGV[at + 2]) then
      first = first or draw_epochs(counter, T, number - releases)
      local done = redis.pcall('SET', KEYS[3 * i - 1], ARGV[at], 'NX', 'PX', ARGV[at + 1])
      if done and done.ok then
        reply(i, first + i - releases - 1)
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

