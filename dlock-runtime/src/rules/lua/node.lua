-- node: what clients ask of a node of a quorum (rules/voting.rs has the semantics). Each item
-- fails by itself; those about one lock are executed in the given order.
-- KEYS  for each run of items: their locks and then, for v and a, their epoch counters; last, a key
--       that exists while anybody wants a hint at this node (section hints)
-- ARGV  the namespace, the number of items; then runs of consecutive items with the same parameters,
--       whose letter is a capital if they are of a kind with many holders:
--       v, item count, lease ms, not_after µs, channel for a hint ('-': none, but the caller waits;
--          '': it does not wait), proposed epoch; for each item: entry
--       a, item count; for each item: entry, epoch to adopt
--       b, item count, whether the entry stays as a retired one (kept_for in release.lua); for each
--          item: entry
--       d, item count, ttl ms; for each item: entry
-- reply {T} if there are several items, all v or b, and each was done as asked: granted with the
--       proposed epoch, or taken back where the value held the lock; otherwise
--       T, then for each item
--       of v: epoch                              granted
--             {2, left, entry, last epoch, rank} busy; rank: how many get a hint earlier
--             {5}                                late: T is past not_after
--             {6, other}                         as for acquire.lua
--             {8, there}                         as for acquire.lua
--       of a: 1 adopted, 0 the entry does not hold the lock
--       of b: 1 the entry held the lock, 0 it did not; {found, rest}; rest: as for release.lua
--       of d: 1 the entry is a reader now, 0 it does not hold the lock
--       {10} undecided: more entries have lapsed than one call removes; repeat at once
--       {9, words}: the item was refused with this error

--@ taken_back
-- The common cases of one item: a vote for an exclusive lock that is taken back while nobody wants a
-- hint;
local is_alone = ARGV[2] == '1'
if is_alone and ARGV[3] == 'b' and ARGV[5] == '0' and redis.pcall('GET', lock) == ARGV[6] then
  if redis.pcall('EXISTS', KEYS[2]) == 0 and redis.call('DEL', lock) == 1 then
    return {T, 1}
  end
end

--@ free
-- a vote for a free lock. The counter comes first, so that the whole call is refused when memory is
-- out.
if is_alone and ARGV[3] == 'v' and T <= tonumber(ARGV[6]) and redis.pcall('EXISTS', lock) == 0 then
  local epoch = draw_epochs(tonumber(ARGV[8]), 1, ARGV[8])
  redis.call('SET', lock, ARGV[9], 'PX', ARGV[5])
  return {T, epoch}
end

--@ hints
-- The hints of a lock at a node of a quorum: a sorted set of the channels at which others want to be
-- told that it is free, by arrival (µs). Behind them, as w<channel>, the writers that readers keep
-- out: their scores less BEHIND_ALL say until when each counts as waiting. BEHIND_ALL is longer than
-- any time of arrival, and such that the sum is exact.
-- The others as in rules/ballots.rs (a test compares them): ms, a number, µs, µs.
local BEHIND_ALL, HINTS_TTL, HINTS_AT_ONCE = 4503599627370496, 7000, 3
local WRITER_WAITS, WRITER_COMES = 2500000, 500000

-- The last key exists while anybody wants a hint at this node.
local namespace, somebody_wants = ARGV[1], KEYS[#KEYS]

-- The name of the hints of the lock at hand, as names.rs makes it (a test compares them): few calls
-- need it, and no node is part of a cluster.
local function hints()
  local from = string.find(lock, '{', 1, true)
  local to = from and string.find(lock, '}', from + 1, true)
  if to and to > from + 1 then
    return namespace .. '@h#' .. string.sub(lock, #namespace + 1)
  end
  return namespace .. '@h:{' .. lock .. '}'
end

-- The counter's number; 0 if it was not drawn here.
local function last_epoch()
  local last = tonumber(redis.call('GET', counter) or nil)
  return last and last >= 0 and last <= 9007199254740991 and last or 0
end

-- Enters the channel behind all others, or leaves it where it is; returns how many are before it.
-- PEXPIRE comes first: a missing right leaves no key without a time to live.
local function ask_for_hint(channel)
  if channel == '' or channel == '-' then
    return 0
  end
  local hints = hints()
  redis.call('SET', somebody_wants, 1, 'PX', HINTS_TTL)
  redis.call('PEXPIRE', hints, HINTS_TTL)
  redis.call('ZADD', hints, 'NX', digits, channel)
  redis.call('PEXPIRE', hints, HINTS_TTL)
  return redis.call('ZRANK', hints, channel)
end

--@ outvoted
-- Another common case: a vote for a lock that another entry has, no longer than ours.
if is_alone and ARGV[3] == 'v' and T <= tonumber(ARGV[6]) then
  held = redis.pcall('GET', lock)
  if type(held) == 'string' and held ~= ARGV[9] and #held <= 4096 and string.sub(held, 1, 4) == '1|x|' then
    local left = redis.pcall('PTTL', lock)
    if type(left) == 'number' and left > 0 then
      local done, last = pcall(last_epoch)
      local rank
      if done then
        done, rank = pcall(ask_for_hint, ARGV[7])
      end
      if done then
        return {T, {2, left, held, last, rank}}
      end
    end
  end
end

--@ batch
-- The common cases of a batch, over all items of a run at once: votes for exclusive locks
-- that are taken back, then votes for free ones. What is left open is executed below, item by
-- item, and so is everything from the first run on that does not fit.
local try, keys, arguments, number = redis.pcall, KEYS, ARGV, tonumber(ARGV[2])
local replies = {T}
local freed, are_told = {}, true -- freed[i]: item i has freed its lock, whose hints are looked at later
if number > 1 then
  local at, k, i, open, has_freed, has_voted = 3, 1, 0, number, false, false
  local is_as_asked = true
  while i < number do
    local operation, count = arguments[at], tonumber(arguments[at + 1])
    if operation == 'b' and not has_voted and arguments[at + 2] == '0' then
      local values = try('MGET', unpack(keys, k, k + count - 1)) -- false for a value of another type, too
      if values.err then
        break
      end
      local gone, is_gone = {}, {}
      for n = 1, count do
        local lock = keys[k + n - 1]
        if values[n] == arguments[at + 2 + n] and not is_gone[lock] then
          gone[#gone + 1], is_gone[lock], freed[i + n], replies[i + n + 1] = lock, true, true, 1
        else
          replies[i + n + 1], is_as_asked = 0, false
        end
      end
      if gone[1] and try('DEL', unpack(gone)) ~= #gone then -- refused
        for n = 1, count do
          replies[i + n + 1], freed[i + n] = nil, nil
        end
        break
      end
      has_freed, open = has_freed or gone[1], open - count
      at, k, i = at + 3 + count, k + count, i + count
    elseif operation == 'v' and tonumber(arguments[at + 3]) >= T then
      -- The counters are written before the locks. One that has not been drawn from yet is left to
      -- what follows.
      local last = try('MGET', unpack(keys, k + count, k + 2 * count - 1))
      if last.err then
        break
      end
      local lease, proposal = arguments[at + 2], arguments[at + 5]
      local proposed, drawn, epochs, sets, m = tonumber(proposal), {}, {}, {}, 0
      for n = 1, count do
        local counter, epoch, text = keys[k + count + n - 1], proposed, proposal
        local before = drawn[counter] or tonumber(last[n] or nil)
        if before and before >= 0 and before < 9007199254740990 then
          if before >= epoch then
            epoch, is_as_asked = before + 1, false
            text = string.format('%.0f', epoch)
          end
          drawn[counter], epochs[n] = epoch, epoch
          sets[m + 1], sets[m + 2] = counter, text
          m = m + 2
        end
      end
      local is_drawn = m > 0 and try('MSET', unpack(sets, 1, m)).ok
      for n = 1, is_drawn and count or 0 do
        local epoch = epochs[n]
        local set = epoch and try('SET', keys[k + n - 1], arguments[at + 5 + n], 'NX', 'PX', lease)
        if set and set.ok then
          replies[i + n + 1], open = epoch, open - 1
        end
      end
      has_voted = true
      at, k, i = at + 6 + count, k + 2 * count, i + count
    else
      break
    end
  end
  are_told = (has_freed or open > 0) and try('EXISTS', KEYS[#KEYS]) ~= 0
  if open == 0 and not are_told then
    return is_as_asked and {T} or replies
  end
end

--@ script
local LEFT_TO_A_WRITER = '1|w' -- as in values/entry.rs

-- Tells one of those who wait that it is worth asking again; a writer that readers kept out comes
-- before all others. One without a channel asks so often that it needs no hint. An error ends this:
-- the user may have no right to publish, and what was done is right all the same.
local function hint()
  if not are_told then
    return
  end
  local hints, from = hints(), string.format('%.0f', BEHIND_ALL)
  redis.pcall('ZREMRANGEBYSCORE', hints, from, string.format('%.0f', BEHIND_ALL + T))
  for _ = 1, HINTS_AT_ONCE do
    local writer = redis.pcall('ZRANGE', hints, from, '+inf', 'BYSCORE', 'LIMIT', 0, 1)[1]
    local wants = writer and string.sub(writer, 2) or redis.pcall('ZPOPMIN', hints)[1]
    local reached = wants and wants ~= '-' and redis.pcall('PUBLISH', wants, '1|freed\n' .. lock)
    if not wants or type(reached) == 'table' then
      return
    end
    if writer then
      redis.pcall('ZREM', hints, wants)
    end
    if writer and reached == 0 then
      redis.pcall('ZREM', hints, writer)
    elseif writer then
      -- It has some time to come; then no writer counts as waiting until it asks again.
      local last = string.format('%.0f', BEHIND_ALL + T + WRITER_COMES)
      redis.pcall('ZADD', hints, 'XX', 'LT', last, writer)
      redis.pcall('ZREMRANGEBYSCORE', hints, '(' .. last, '+inf')
    end
    if reached ~= 0 then
      return
    end
  end
end

-- Keeps new readers out for a while.
local function writer_waits(channel)
  local hints = hints()
  redis.call('PEXPIRE', hints, HINTS_TTL) -- first: a missing right leaves no key without a ttl
  redis.call('ZADD', hints, string.format('%.0f', BEHIND_ALL + T + WRITER_WAITS), 'w' .. channel)
  redis.call('PEXPIRE', hints, HINTS_TTL)
end

-- Until when a reader that would fit leaves the turn to a writer, even if the lock is free. If the
-- clock was set back since a writer asked, that counts as asked now.
local function held_back_until(e)
  local hints = e.letter == 'r' and hints()
  local last = hints and redis.call('ZRANGE', hints, -1, -1, 'WITHSCORES')
  local ends, latest = last and last[1] and tonumber(last[2]) - BEHIND_ALL, T + WRITER_WAITS
  if ends and ends > latest then
    local after = string.format('%.0f', BEHIND_ALL + latest)
    for _, writer in ipairs(redis.call('ZRANGE', hints, '(' .. after, '+inf', 'BYSCORE', 'LIMIT', 0, 200)) do
      redis.call('ZADD', hints, after, writer)
    end
    return latest
  end
  return ends and ends > T and ends
end

-- Looks at the lock, and drops what has lapsed. Returns the reply if that is all that can be done.
local function load(e)
  local err = stands_at(e)
  return err and redis.error_reply(err) or drop_lapsed() and {10}
end

local function vote(entry, lease, not_after, channel, proposal)
  local e = entry_of(entry)
  local reply = T > tonumber(not_after) and {5} or load(e)
  if reply then
    return reply
  elseif there == OTHER then
    return {6, other_type()[3]}
  elseif held_as(e) then
    -- The command was duplicated on its way. What was drawn for it is not above this.
    local last = epoch_of_hold() or last_epoch()
    return last > 0 and last or tonumber(proposal)
  end
  local other = channel == '' and other_kind(e)
  if other then
    return {8, beginning(other)}
  end
  local has_room = fits(e)
  local held_back = has_room and held_back_until(e)
  if held_back or not has_room then
    local left, named = in_the_way()
    if held_back and not there then
      left, named = math.ceil((held_back - T) / 1000), LEFT_TO_A_WRITER
    end
    local last, rank = last_epoch(), ask_for_hint(channel)
    are_told = true
    if e.letter == 'w' and channel ~= '' and string.sub(named or '', 1, 4) == '1|r|' then
      writer_waits(channel)
    end
    return {2, left, named, last, rank}
  end
  -- The counter comes first, so that the item is refused as a whole when memory is out.
  local epoch = put(e, lease, (draw_epochs(tonumber(proposal), 1, proposal)))
  if e.letter == 'w' then
    redis.pcall('ZREMRANGEBYSCORE', hints(), string.format('%.0f', BEHIND_ALL), '+inf')
  elseif e.letter ~= 'x' then
    hint() -- the next one may fit beside it
  end
  return epoch
end

local function adopt(entry, epoch)
  local e = entry_of(entry)
  local reply = load(e)
  if reply then
    return reply
  elseif not held_as(e) then
    return 0
  end
  if last_epoch() < tonumber(epoch) then
    redis.call('SET', counter, epoch)
  end
  local of_hold = epoch_of_hold()
  if of_hold and of_hold < tonumber(epoch) then
    set_meta((string.gsub(there, '^(1|#|o|[^|]*|)%d+', '%1' .. epoch, 1)))
  end
  return 1
end

local function take_back(entry, keep)
  local found, rest, _, err = release(entry_of(entry), keep)
  if err then
    return redis.error_reply(err)
  elseif not found then
    return {10}
  end
  if found == 1 and not there then
    hint()
  end
  return rest > 0 and {found, rest} or found
end

local function step_down(entry, ttl)
  local e = entry_of(entry)
  local reply = load(e)
  if reply then
    return reply
  end
  local reads = downgrade(e, tonumber(ttl))
  if reads == 1 then
    hint()
  end
  return reads
end

local operations = {v = vote, a = adopt, b = take_back, d = step_down}
local terms = {v = 4, a = 0, b = 1, d = 1}

-- Executes what is still open.
local at, k, i = 3, 0, 0
while i < number do
  local letter, count = string.lower(arguments[at]), tonumber(arguments[at + 1])
  local has_counter = letter == 'v' or letter == 'a'
  local of_run = at + 2
  at = of_run + terms[letter]
  for n = 1, count do
    lock, counter, there = keys[k + n], has_counter and keys[k + count + n], nil
    if not replies[i + n + 1] then
      local words = {arguments[at], unpack(arguments, of_run, of_run + terms[letter] - 1)}
      if letter == 'a' then
        words[2] = arguments[at + 1]
      end
      if is_alone then -- so that an error names its line
        replies[2] = operations[letter](unpack(words))
      else
        local done, answer = pcall(operations[letter], unpack(words))
        local is_refused = not done or type(answer) == 'table' and answer.err
        replies[i + n + 1] = is_refused and refused(answer, ', node') or answer
      end
    elseif freed[i + n] then
      hint()
    end
    at = at + (letter == 'a' and 2 or 1)
  end
  k, i = k + (has_counter and 2 or 1) * count, i + count
end
return type(replies[2]) == 'table' and replies[2].err and replies[2] or replies
