-- renew: extends each lease to at least its ttl, if the entry still holds the lock. Never creates,
-- never shortens; one failing key does not affect the others. Idempotent.
-- KEYS  the locks; behind them the epoch counter, if all have one: an extended entry of a set draws an
--       epoch, which proves a step back of the clock (ends_too_late in set.lua)
-- ARGV  1 the number of runs; a run is consecutive items with the same ttl. For each run: item
--       count, ttl ms; then the entry of each item
-- reply 1: all are renewed; otherwise for each item: 1 renewed, 0 not held by the entry, -1 the
--       read or the write failed, -2 this server is a replica

--@ fast
-- The common case: a string key that still has the item's value.
local try, keys, arguments = redis.pcall, KEYS, ARGV
local replies, to, runs = {}, 0, {}
for n = 1, tonumber(arguments[1]) do
  runs[n] = {from = to + 1, to = to + arguments[2 * n], ttl = arguments[2 * n + 1]}
  to = runs[n].to
end
local open, behind = to, #arguments - to -- the entry of item i is arguments[behind + i]
local values = try('MGET', unpack(keys, 1, to))
for _, run in ipairs(runs) do
  local ttl, least = run.ttl, tonumber(run.ttl)
  for i = run.from, run.to do
    if values[i] == arguments[behind + i] then
      local left = try('PTTL', keys[i])
      if type(left) == 'number' and (left >= least or try('PEXPIRE', keys[i], ttl) == 1) then
        replies[i], open = 1, open - 1
      end
    end
  end
end
if open == 0 then
  return 1
end

--@ script
local is_drawn = false

-- Only the entry's own end changes. Returns 1, or 0 if it does not hold the lock.
local function renew(entry, ttl)
  local e = entry_of(entry)
  local err = e.letter == 'x' and look() or nil
  if e.letter ~= 'x' then
    err = stands_at(e)
  end
  local form, _, refused = held_as(e)
  err = refused or not is_other_type(err) and err
  if err then
    error(err)
  elseif not form then
    return 0
  elseif e.letter == 'x' then
    if redis.call('PTTL', lock) < ttl then
      redis.call('PEXPIRE', lock, ttl)
    end
    return 1
  end
  drop_lapsed()
  local ends, words = string.format('%.0f', T + ttl * 1000), {}
  for i, member in ipairs(members(form, e.take)) do
    words[2 * i - 1], words[2 * i] = ends, member
  end
  redis.call('ZADD', lock, 'XX', 'GT', unpack(words))
  note_lease(form, ttl)
  settle()
  is_drawn = is_drawn or pcall(draw_epochs, T, 1, digits)
  return 1
end

-- Handles the items that the fast path left open.
counter = keys[to + 1]
for _, run in ipairs(runs) do
  for i = run.from, run.to do
    if not replies[i] then
      lock, there = keys[i], nil
      local done, reply = pcall(renew, arguments[behind + i], tonumber(run.ttl))
      local words = type(reply) == 'table' and reply.err or tostring(reply)
      replies[i] = done and reply or string.find(words, 'READONLY', 1, true) and -2 or -1
    end
  end
end
return replies
