-- renew: extends each lease to at least its ttl, if the value still holds the lock. Never creates,
-- never shortens; one failing key does not affect the others. Idempotent.
-- KEYS  the locks
-- ARGV  1 the number of runs; a run is consecutive items with the same ttl. For each run: item
--       count, ttl ms; then the value of each item
-- reply 1: all are renewed; otherwise for each item: 1 renewed, 0 not held by the value, -1 the
--       read or the write failed, -2 this server is a replica
local function renew(lock, value, ttl)
  local held, err = look(lock)
  if err and not is_other_type(err) then
    return -1
  end
  if held ~= value then
    return 0
  end
  if redis.call('PTTL', lock) < tonumber(ttl) then
    local done = redis.pcall('PEXPIRE', lock, ttl)
    if type(done) == 'table' then
      return string.find(done.err, 'READONLY', 1, true) and -2 or -1
    end
  end
  return 1
end

-- The same for an entry of a kind with many holders: only the entry's own end changes.
local function renew_entry(lock, e, ttl, T)
  local there, err = stands_at(lock)
  local form = not err and held_as(lock, there, e, T)
  if not form then
    return err and not is_other_type(err) and -1 or 0
  end
  there = drop_lapsed(lock, there, T)
  local ends = string.format('%.0f', T + ttl * 1000)
  local words = {}
  for i, member in ipairs(members(form, e.take)) do
    words[2 * i - 1], words[2 * i] = ends, member
  end
  redis.call('ZADD', lock, 'XX', 'GT', unpack(words))
  settle(lock, there, T)
  return 1
end

-- The reply for an error of any command of renew_entry.
local function refused(err)
  local words = type(err) == 'table' and err.err or tostring(err)
  return string.find(words, 'READONLY', 1, true) and -2 or -1
end

-- Handles the items that renew_fast_path.lua, which precedes this, left open.
local T
for _, run in ipairs(runs) do
  for i = run.from, run.to do
    local lock, value, ttl = keys[i], arguments[behind + i], run.ttl
    local e = not replies[i] and read_entry(value)
    if e and e.letter ~= 'x' then
      T = T or now()
      local done, reply = pcall(renew_entry, lock, e, tonumber(ttl), T)
      replies[i] = done and reply or refused(reply)
    elseif not replies[i] then
      replies[i] = renew(lock, value, ttl)
    end
  end
end
return replies
