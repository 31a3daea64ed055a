-- combined: releases and acquires of exclusive locks that several callers asked for at about the same time, each
-- with the outcome that its own script would have. One that fails hurts no other: nothing is raised past the
-- first write. What most of them need is done for all at once, the rest one by one.
-- KEYS  1 the counter of epochs, then for each item: the lock, W and A (see queue.lua)
-- ARGV  1 how many are releases, which come first: value and keep_until of each, as for release; then for each
--       acquire: value, lease ms, not_after µs, ttl ms for a key that has none, entry, as for acquire
-- reply for each what its own script replies; or {9, words}: it was refused with this error
local counter, number, releases = KEYS[1], (#KEYS - 1) / 3, tonumber(ARGV[1])
local replies = {}

local function keys(i)
  return KEYS[3 * i - 1], counter, KEYS[3 * i], KEYS[3 * i + 1]
end

-- Where the arguments of an acquire begin.
local function arguments(i)
  return 2 + 2 * releases + 5 * (i - releases - 1)
end

-- An error is a text or a table, as versions differ.
local function refused(err)
  return {9, type(err) == 'table' and err.err or tostring(err)}
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

-- Those that are held by their value, have nobody to go to and need not stay.
local function release_at_once(waited_for)
  local locks, free, freed, seen = {}, {}, {}, {}
  for i = 1, releases do
    locks[i] = KEYS[3 * i - 1]
  end
  local values = redis.pcall('MGET', unpack(locks))
  for i, lock in ipairs(locks) do
    if values[i] == ARGV[2 * i] and ARGV[2 * i + 1] == '0' and not waited_for[i] and not seen[lock] then
      free[#free + 1], freed[#freed + 1] = lock, i
    end
    seen[lock] = true -- a second one of the same lock has to see what the first did
  end
  if #free > 0 and type(redis.pcall('DEL', unpack(free))) == 'number' then
    for _, i in ipairs(freed) do
      replies[i] = 1
    end
  end
end

-- Those that are free and that nobody waits for. The epochs come first, so that they are refused as a whole
-- when memory is out; what is not used of them was nobody's.
local function acquire_at_once(waited_for, T)
  local asked = {}
  for i = releases + 1, number do
    if not waited_for[i] and T <= tonumber(ARGV[arguments(i) + 2]) then
      asked[#asked + 1] = i
    end
  end
  if #asked == 0 then
    return
  end
  local first = draw_epochs(counter, T, #asked)
  for n, i in ipairs(asked) do
    local at = arguments(i)
    local done = redis.pcall('SET', KEYS[3 * i - 1], ARGV[at], 'NX', 'PX', ARGV[at + 1])
    if done and done.ok then
      replies[i] = {1, T, first + n - 1}
    end
  end
end

local waited_for = look_at_queues()
if releases > 0 then
  release_at_once(waited_for)
end
for i = 1, releases do
  if not replies[i] then
    local lock, _, W, A = keys(i)
    local done, found, err = pcall(release, lock, counter, W, A, ARGV[2 * i], tonumber(ARGV[2 * i + 1]), nil)
    replies[i] = not (done and found) and refused(done and err or found) or found
  end
end
if releases < number then
  local told, T = pcall(now)
  if told then
    pcall(acquire_at_once, waited_for, T)
  end
  for i = releases + 1, number do
    if not replies[i] then
      local lock, _, W, A = keys(i)
      local value, lease, not_after, repair, entry = unpack(ARGV, arguments(i), arguments(i) + 4)
      not_after, repair = tonumber(not_after), tonumber(repair)
      local done, reply = pcall(acquire, lock, counter, W, A, value, lease, not_after, repair, entry, told and T or nil)
      replies[i] = done and not reply.err and reply or refused(reply)
    end
  end
end
return replies
