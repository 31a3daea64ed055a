-- acquire: takes a lock if the entry fits beside the holders and the queue is empty; otherwise enters
-- the queue, if the caller may queue. The client sends it once per entry. It creates nothing after
-- not_after. If the server executes it twice, the second run replies `yours` or keeps the queue
-- entry where it is.
-- KEYS  1 the lock, 2 the epoch counter, 3 queue and 4 heartbeats of the lock (see queue.lua); or
--       the lock alone, in a slot that is moving: whoever waits in the queue is not seen, nobody
--       enters it, and the epoch is 0
-- ARGV  1 entry, 2 lease ms, 3 not_after µs, 4 ttl ms to set on a key without one (0: leave it), 5
--       '1': the caller may queue, 6 the fleet's secret (see grant.lua)
-- reply T                    granted, and the epoch equals T, which is the usual case
--       {1, T, epoch}        granted
--       {2, T, left, entry}  busy, not queued: the caller may not queue, the key has no time to
--                            live (left -1), or the value has another layout; left: ms until the
--                            first holder ends; entry: that holder's, or the value
--       {3, T, left, entry}  busy, queued; left -2 and '': only the queue blocks the lock
--       {4, T, epoch, left}  the entry already holds the lock: this command was duplicated
--       {5, T}               late: T is past not_after
--       {6, T, other}        a value of another type is stored at the key; other: 1, a set of
--                            another layout
--       {11, T, left, record}  the entry runs once per period, and was run within it: ms until it
--                            may run; nothing was created (see record.lua)
--       {8, T, there}        the lock is held as another kind and the caller may not queue; there:
--                            the meta member of the stored set (see set.lua), or '1|x|' for a string
--       {10, T}              undecided: more entries have lapsed than one call removes; repeat at
--                            once

--@ told
-- The common cases of an exclusive lock: a held lock, if its holder is an entry no longer than ours;
-- first where the caller is only told so.
local try, value, left = redis.pcall, ARGV[1], 0
local is_late = T > tonumber(ARGV[3])
local is_free = not is_late and try('EXISTS', lock, queue) == 0
if not is_late and not is_free then
  held = try('GET', lock)
  if type(held) == 'string' and held ~= value and #held <= 4096 and string.sub(held, 1, 4) == '1|x|' then
    left = try('PTTL', lock)
  end
end
local is_held = type(left) == 'number' and left > 0
if is_held and ARGV[5] ~= '1' then
  return {2, T, left, held}
end

--@ free
-- A free lock with an empty queue. The epoch is drawn first, so that the whole call is refused when
-- memory is out.
if is_free then
  local epoch = draw_epochs(T, 1, digits)
  redis.call('SET', lock, value, 'PX', ARGV[2])
  return epoch == T and T or {1, T, epoch} -- a number is a cheaper reply than a list
end

--@ waits
-- Where the caller enters the queue.
if is_held then
  local _, arrival = draw_epochs(T, 1, digits)
  enter(value, arrival)
  return {3, T, left, held}
end

--@ one
-- Takes one lock. acquire.lua lists the replies; an error is returned as a reply too. The lease is in
-- ms; repair: ms to set on a key without a time to live, 0: leave it.
local function acquire(e, lease, not_after, repair, may_queue)
  if T > not_after then
    return {5, T}
  end
  local err = stands_at(e)
  if err then
    return redis.error_reply(err)
  elseif there == OTHER then
    return other_type()
  end
  -- Drawn first, so that the whole call is refused when memory is out; where a string stands, nothing
  -- is created but a queue entry.
  local epoch, arrival, more
  if there ~= ONE then
    epoch, arrival = draw_epochs(T, 1, digits)
    more = drop_lapsed() or grant_all()
  end
  local reply = yours(e)
  if reply or more then
    return reply or {10, T}
  elseif may_queue and counter and is_queued(e.value) then
    beat(e.value)
    return still_waits(in_the_way())
  end
  local too_soon = not is_by_key and not_due(e)
  if too_soon then
    return too_soon
  end
  local other = not may_queue and other_kind(e)
  if other then
    return {8, T, beginning(other)}
  end
  -- An owner that holds the lock bypasses the queue: otherwise it would wait for waiters that wait
  -- for it.
  if fits(e) and (e.letter == 'o' and there or not first_entry()) then
    epoch = put(e, lease, epoch)
    return epoch == T and T or {1, T, epoch} -- a number is a cheaper reply than a list
  end
  local left, named = in_the_way()
  if left == -1 and repair > 0 then
    redis.call('PEXPIRE', lock, repair)
    left = repair
  end
  if not may_queue or there == ONE and (left == -1 or is_other_layout(named)) then
    return {2, T, left, named}
  end
  if not arrival then
    epoch, arrival = draw_epochs(T, 1, digits)
  end
  enter(e.value, arrival)
  return still_waits(left, named)
end

--@ once
-- For an exclusive entry that runs once per period.
local e = read_entry(ARGV[1]) or error('that is not an entry', 0)
return acquire(e, ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5] == '1')

--@ script
return acquire(entry_of(ARGV[1]), ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5] == '1')
