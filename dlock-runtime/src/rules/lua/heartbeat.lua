-- heartbeat: refreshes many waiting entries, of one lock or of many, each in place of a poll that
-- would only reply that the entry still waits. Never creates, grants or removes: where that may be
-- needed, the reply asks for a poll. Idempotent.
-- KEYS  1 the epoch counter, then for each group: the lock, queue and heartbeats (see queue.lua); the
--       entries of a group wait for one lock, either all for the exclusive lock or none
-- ARGV  the number of entries in each group, then the entries
-- reply T, then for each group: left and holder, which are a poll's reply to all its entries, and
--       the entries that must poll: 0 for none, or their indices in the group. An entry must poll
--       if it is not queued, or if its own poll may grant it the lock. If any poll of this lock
--       could change something (the lock is free, the head fits, an entry has lapsed), the first
--       entry polls; the others get left -2 and holder '', and ask again after an interval.
local keys, arguments, groups = KEYS, ARGV, math.floor((#KEYS - 1) / 3) -- in a cluster one key more
counter = keys[1]

local function has_lapsed()
  return redis.call('ZRANGE', heartbeats, '-inf', digits, 'BYSCORE', 'LIMIT', 0, 1)[1]
end

-- Whether a poll would drop a holder, sweep an entry or grant to the head. Nobody fits beside a string.
local function may_change()
  if there == ONE then
    return false
  end
  local first = is_set() and redis.call('ZRANGE', lock, 0, 0, 'WITHSCORES')
  local ends = first and tonumber(first[2])
  if first and (ends <= T or is_meta(first[1]) or ends_too_late(first[1], ends)) or has_lapsed() then
    return true
  end
  local head = first_entry()
  local e = head and read_entry(head)
  if not head or e and fits(e) then
    return head
  end
  local beaten = tonumber(redis.call('ZSCORE', heartbeats, head) or nil)
  return not (beaten and beaten <= T + HEARTBEAT)
end

-- Whether the entry's own poll may grant it the lock: it holds the lock already, or its owner does.
local function is_let_in(entry, is_exclusive)
  if is_exclusive then
    return held == entry
  elseif is_set() and string.sub(there, 1, 6) == '1|#|o|' then
    local e = read_entry(entry)
    return not e or e.letter == 'o' and fits(e)
  end
  return false
end

-- Everything is read before the first write. The first write, PEXPIRE, is allowed when memory is
-- out, and fails for a user without the right to it before anything has changed; so nothing is
-- added without an expiry.
local function beat_all(entries)
  local is_exclusive = string.sub(entries[1], 1, 4) == '1|x|'
  if stands_at({letter = is_exclusive and 'x' or 'r'}) or there == OTHER then
    return nil
  end
  local until_then, arrivals = string.format('%.0f', T + HEARTBEAT), redis.call('ZMSCORE', queue, unpack(entries))
  local words, polls, first = {}, {}, nil
  for i = 1, #entries do
    local entry = entries[i]
    if arrivals[i] then
      words[#words + 1] = until_then
      words[#words + 1] = entry
    end
    if not arrivals[i] or is_let_in(entry, is_exclusive) then
      polls[#polls + 1] = i
    else
      first = first or i
    end
  end
  if #words > 0 then
    redis.call('PEXPIRE', queue, QUEUE_TTL)
    redis.call('ZADD', heartbeats, unpack(words))
    redis.call('PEXPIRE', heartbeats, QUEUE_TTL)
  end
  local left, holder
  if first and may_change() then
    polls[#polls + 1] = first
  elseif first then
    local reply = still_waits(in_the_way())
    left, holder = reply[3], reply[4]
  end
  return left or -2, holder or '', polls
end

local function all(n)
  local numbers = {}
  for i = 1, n do
    numbers[i] = i
  end
  return numbers
end

local replies, to = {T}, groups
for group = 1, groups do
  local entries, n = {}, tonumber(arguments[group])
  for i = 1, n do
    entries[i] = arguments[to + i]
  end
  to = to + n
  lock, queue, heartbeats = keys[3 * group - 1], keys[3 * group], keys[3 * group + 1]
  local done, left, holder, polls = pcall(beat_all, entries)
  if not done or not left then
    left, holder, polls = -2, '', all(n) -- each entry learns from its own poll what is wrong
  end
  local at = 3 * group
  replies[at - 1], replies[at], replies[at + 1] = left, holder, #polls > 0 and polls or 0
end
return replies
