-- node_shared: what clients ask of a node of a quorum about a lock of a kind with many holders, one
-- entry in a call (policy/server/voting.rs has the semantics, set.lua the layout).
-- KEYS  1 the lock, 2 its epoch counter, 3 its hints, 4 a key that exists while anybody wants a hint
-- ARGV  1 operation, 2 entry, and for
--       v: 3 lease ms, 4 not_after µs, 5 proposed epoch, 6 channel for a hint, as for node.lua
--       a: 3 epoch to adopt
--       b: 3 keep_until µs
--       d: 3 ttl ms
-- reply {T, answer}; answer: {10} undecided: more entries have lapsed than one call removes; repeat
--       at once; otherwise for
--       v, a: as for node.lua
--       b: {found, rest}; found: 1 if the entry held the lock, else 0; rest: how many entries of
--          its owner still hold it, 0 for every other kind
--       d: 1 the entry is a reader now, 0 it does not hold the lock
local lock, counter, hints, somebody_wants = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local operation, e, T = ARGV[1], read_entry(ARGV[2]), now()
local LEFT_TO_A_WRITER = '1|w' -- as in values/entry.rs

-- Keeps new readers out for a while.
local function writer_waits(channel)
  redis.call('PEXPIRE', hints, HINTS_TTL) -- first: a missing right leaves no key without a ttl
  redis.call('ZADD', hints, string.format('%.0f', BEHIND_ALL + T + WRITER_WAITS), 'w' .. channel)
  redis.call('PEXPIRE', hints, HINTS_TTL)
end

-- Until when a reader that would fit leaves the turn to a writer, also if the lock is free.
local function held_back_until()
  local last = e.letter == 'r' and redis.call('ZRANGE', hints, -1, -1, 'WITHSCORES')
  local ends = last and last[1] and tonumber(last[2]) - BEHIND_ALL
  return ends and ends > T and ends
end

-- Enters the channel behind all others, or leaves it where it is; returns how many are before it.
local function ask_for_hint(channel)
  if channel == '' or channel == '-' then
    return 0
  end
  redis.call('SET', somebody_wants, 1, 'PX', HINTS_TTL)
  redis.call('PEXPIRE', hints, HINTS_TTL)
  redis.call('ZADD', hints, 'NX', string.format('%.0f', T), channel)
  redis.call('PEXPIRE', hints, HINTS_TTL)
  return redis.call('ZRANK', hints, channel)
end

-- The counter's number; 0 if it was not drawn here.
local function last_epoch()
  local last = tonumber(redis.call('GET', counter) or nil)
  return last and last >= 0 and last <= 9007199254740991 and last or 0
end

local function draw_proposed(proposal)
  local epoch, last = tonumber(proposal), tonumber(redis.call('SET', counter, proposal, 'GET') or nil)
  if last and last >= epoch and last < 9007199254740991 then
    epoch = last + 1
    redis.call('SET', counter, string.format('%.0f', epoch))
  end
  return epoch
end

if not e then
  return redis.error_reply(NO_ENTRY)
elseif operation == 'v' and T > tonumber(ARGV[4]) then
  return {T, {5}}
end
local there, err = stands_at(lock)
if err and not is_other_type(err) then
  return redis.error_reply(err)
elseif err and operation == 'v' then
  return {T, {6, other_type(lock, T)[3]}}
end
local more
there, more = drop_lapsed(lock, there, T)
if more then
  return {T, {10}}
end
local form, ends = held_as(lock, there, e, T)

if operation == 'v' then
  if form then
    -- The command was duplicated on its way. What was drawn for it is not above this.
    return {T, epoch_of_hold(there) or last_epoch()}
  end
  local channel = ARGV[6]
  local other = channel == '' and other_kind(lock, there, e)
  if other then
    return {T, {8, beginning(other)}}
  end
  local has_room = fits(lock, there, e)
  local held_back = has_room and held_back_until()
  if held_back or not has_room then
    local left, named = in_the_way(lock, there, T)
    if held_back and not there then
      left, named = math.ceil((held_back - T) / 1000), LEFT_TO_A_WRITER
    end
    local rank = ask_for_hint(channel)
    if e.letter == 'w' and channel ~= '' and string.sub(named or '', 1, 4) == '1|r|' then
      writer_waits(channel)
    end
    return {T, {2, left, named, last_epoch(), rank}}
  end
  local epoch = draw_proposed(ARGV[5])
  there, epoch = put(lock, there, e, tonumber(ARGV[3]), epoch, T)
  if e.letter == 'w' then
    redis.call('ZREMRANGEBYSCORE', hints, string.format('%.0f', BEHIND_ALL), '+inf')
  else
    hint(hints, lock, T) -- the next one may fit beside it
  end
  return {T, epoch}
elseif operation == 'a' then
  if not form then
    return {T, 0}
  end
  local epoch = tonumber(ARGV[3])
  if last_epoch() < epoch then
    redis.call('SET', counter, ARGV[3])
  end
  local of_hold = epoch_of_hold(there)
  if of_hold and of_hold < epoch then
    redis.call('ZREM', lock, there)
    redis.call('ZADD', lock, 'inf', (string.gsub(there, '^(1|#|o|[^|]*|)%d+', '%1' .. ARGV[3], 1)))
  end
  return {T, 1}
elseif operation == 'b' then
  local found
  there, found = give_back(lock, there, e, tonumber(ARGV[3]), T)
  local rest = found == 1 and rest_of(lock, there, e) or 0
  if found == 1 and not there then
    hint(hints, lock, T)
  end
  return {T, {found, rest}}
end
local is_writer = e.letter == 'w'
if is_writer and form == e.value then
  -- The writer is removed last, so that a missing right can't cost the holder its lock.
  add(lock, reader_form(form), 1, math.max(ends, T + tonumber(ARGV[3]) * 1000))
  redis.call('ZREM', lock, form)
  settle(lock, there, T)
  hint(hints, lock, T)
end
return {T, is_writer and form and 1 or 0}
