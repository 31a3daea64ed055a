-- heartbeat: refreshes many waiting entries, of one lock or of many, each in place of a poll that
-- would only reply that the entry still waits. Never creates, grants or removes: where that may be
-- needed, the reply asks for a poll. Idempotent.
-- KEYS  for each group: the lock, queue and heartbeats (see queue.lua); the entries of a group wait
--       for one lock, either all for the exclusive lock or none
-- ARGV  the number of entries in each group, then the entries
-- reply T, then for each group: left and holder, which are a poll's reply to all its entries, and
--       the entries that must poll: 0 for none, or their indices in the group. An entry must poll
--       if it is not queued, or if its own poll may grant it the lock. If any poll of this lock
--       could change something (the lock is free, the head fits, an entry has lapsed), the first
--       entry polls; the others get left -2 and holder '', and ask again after an interval.
local T, keys, arguments, groups = now(), KEYS, ARGV, math.floor(#KEYS / 3)

local function has_lapsed(heartbeats)
  return redis.call('ZRANGE', heartbeats, '-inf', string.format('%.0f', T), 'BYSCORE', 'LIMIT', 0, 1)[1]
end

-- Whether a poll of a kind with many holders would drop a holder, sweep an entry or grant to the
-- head.
local function may_change(lock, queue, heartbeats, there)
  local first = is_set(there) and redis.call('ZRANGE', lock, 0, 0, 'WITHSCORES')
  if first and (tonumber(first[2]) <= T or is_meta(first[1])) or has_lapsed(heartbeats) then
    return true
  end
  local head = first_entry(queue)
  local e = head and read_entry(head)
  return e and (fits(lock, there, e) or not redis.call('ZSCORE', heartbeats, head))
end

-- What a poll of an exclusive lock replies to a waiting entry; nil if a poll could change
-- something.
local function exclusive(lock, queue, heartbeats, there, held)
  if held then
    return redis.call('PTTL', lock), held
  elseif not may_change(lock, queue, heartbeats, there) then
    return in_the_way(lock, there, T) -- if the lock is free, the head of its queue can't be parsed
  end
end

local function shared(lock, queue, heartbeats, there)
  if not may_change(lock, queue, heartbeats, there) then
    local reply = still_waits(lock, queue, heartbeats, there, T)
    return reply[3], reply[4]
  end
end

-- Whether the entry's own poll may grant it the lock: it holds the lock already, or its owner does.
local function is_let_in(lock, there, held, entry, is_exclusive)
  if is_exclusive then
    return held == entry
  elseif is_set(there) and string.sub(there, 1, 6) == '1|#|o|' then
    local e = read_entry(entry)
    return not e or e.letter == 'o' and fits(lock, there, e)
  end
  return false
end

-- Everything is read before the first write. The first write, PEXPIRE, is allowed when memory is
-- out, and fails for a user without the right to it before anything has changed; so nothing is
-- added without an expiry.
local function beat_all(lock, queue, heartbeats, entries)
  local held, err = look(lock)
  local there = is_other_type(err) and meta(lock)
  if err and not there then
    return nil
  end
  local is_exclusive = string.sub(entries[1], 1, 4) == '1|x|'
  there = held and ONE or there
  local until_then, arrivals = string.format('%.0f', T + HEARTBEAT), redis.call('ZMSCORE', queue, unpack(entries))
  local words, polls, first = {}, {}, nil
  for i = 1, #entries do
    local entry = entries[i]
    if arrivals[i] then
      words[#words + 1] = until_then
      words[#words + 1] = entry
    end
    if not arrivals[i] or is_let_in(lock, there, held, entry, is_exclusive) then
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
  if first and is_exclusive then
    left, holder = exclusive(lock, queue, heartbeats, there, held)
  elseif first then
    left, holder = shared(lock, queue, heartbeats, there)
  end
  if first and not left then
    polls[#polls + 1] = first
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
  local done, left, holder, polls = pcall(beat_all, keys[3 * group - 2], keys[3 * group - 1], keys[3 * group], entries)
  if not done or not left then
    left, holder, polls = -2, '', all(n) -- each entry learns from its own poll what is wrong
  end
  local at = 3 * group
  replies[at - 1], replies[at], replies[at + 1] = left, holder, #polls > 0 and polls or 0
end
return replies
