-- release: releases a lock and grants it to the next waiters. Idempotent.
-- KEYS  1 the lock, 2 the epoch counter, 3 queue and 4 heartbeats of the lock (see queue.lua)
-- ARGV  1 entry, 2 whether it stays as a retired one (kept_for), 3 the fleet's secret (see
--       grant.lua)
-- reply 1 the entry held the lock, 0 it did not; or {found, rest, more, refused, recorded}; rest: how many
--       entries of its owner still hold it, 0 for every other kind; more: 1 if more waiters may fit
--       now than one call grants to; refused: 1 if the native delete command was refused, so that the
--       connection stops using it; recorded: 1 if the record tells of this run (see record.lua)
--       {10, T}  undecided: more entries have lapsed than one call removes; repeat at once

--@ fast
-- The common case: the value of an exclusive lock holds it, the queue is empty, and the
-- key need not be kept. If the server can compare and delete in one command, scripts.rs puts that
-- command in place of GET and DEL.
local deleted
if ARGV[2] == '0' and redis.pcall('EXISTS', KEYS[3]) == 0 then
  deleted = redis.pcall('GET', KEYS[1]) == ARGV[1] and redis.call('DEL', KEYS[1])
  if deleted == 1 then
    return 1
  end
end

--@ no_common_case
local deleted, is_taken_back

--@ turn
-- The other common case: the value of an exclusive lock holds it, the key need not be
-- kept, and the head of the queue is another exclusive entry, which may run more than once per period,
-- is alive and receives the push.
-- Otherwise the script does the release, or if the push reached nobody the next grant.
local is_taken_back = false
local try = redis.pcall
local head = ARGV[2] == '0' and try('GET', lock) == ARGV[1] and try('ZRANGE', queue, 0, 0)[1]
local address, lease = string.match(head or '', '^1|x|[^|]+|(%x*;[^|]+)|(%d+)|%d+|0|[^|]*|')
if address and #lease <= 15 and tonumber(lease) > 0 then
  -- If no entry has lapsed, every entry in the heartbeats is alive. If any step up to the removal
  -- of the head is refused, the script does the release, which deletes the lock first.
  local lapsed, _, text = try('ZRANGE', heartbeats, '-inf', digits, 'BYSCORE', 'LIMIT', 0, 1), nil, nil
  local is_drawn = not lapsed.err and #lapsed == 0
  if is_drawn then
    is_drawn, _, text = pcall(draw_epochs, T, 1, digits)
  end
  if is_drawn and try('ZREM', heartbeats, head) == 1 then
    redis.call('ZREM', queue, head)
    lease = math.min(lease, CLAIM)
    redis.call('SET', lock, head, 'PX', lease)
    if publish(address, head, text, lease) then
      return 1
    end
    redis.call('DEL', lock)
    there, is_taken_back = false, true
  end
end

--@ one
-- How many µs a key stays although its holder is done (`min_hold`), nil if it goes; second, the most
-- ms. keep: 0, or until when (µs) and, behind a colon, for how many ms at most: the clock may have
-- been set back since the first was computed; record.lua has what may follow.
local function kept_for(keep)
  local ends, at_most = string.match(keep, '^(%d+):(%d+)')
  local left = ends and math.min(ends - T, at_most * 1000)
  if left and left > 0 then
    return left, tonumber(at_most)
  end
  return nil
end

-- The retired entry that is kept and matches no token. An owner's entries share one retired form,
-- which ends with the latest of them, so that the owner's remaining entries need no counting.
local function retired(form, e)
  if e.letter == 'o' then
    return '1|o|-||1|0|0|' .. string.sub(e.meta, 7) .. '|-|0|min_hold|0'
  end
  return (string.gsub(form, '^(1|%l|)', '%1-', 1))
end

-- Gives up the form in which an entry holds the lock. If it is to be kept, it stays retired, and counts
-- as a holder. The first write is allowed when memory is out.
local function give_up(e, form, keep)
  local kept, at_most = kept_for(keep)
  if not kept then
    take_out(e, form)
  elseif there == ONE then
    held = retired(form, e)
    redis.call('PEXPIRE', lock, string.format('%.0f', math.ceil(kept / 1000)))
    -- XX: PEXPIRE may have deleted the key (settle in set.lua), and would leave it without an end.
    if not redis.call('SET', lock, held, 'XX', 'KEEPTTL') then
      there, held = false, false
    end
  else
    redis.call('ZREM', lock, unpack(members(form, e.take)))
    add(retired(form, e), e.take, T + kept)
    note_lease(retired(form, e), at_most)
    settle()
  end
end

-- How many entries of the same owner still hold the lock; 0 for every other kind.
local function rest_of(e)
  if e.letter ~= 'o' or not is_set() then
    return 0
  end
  local kept = redis.call('ZSCORE', lock, retired(e.value, e)) and 1 or 0
  return redis.call('ZCARD', lock) - 1 - kept
end

-- Releases the lock, and grants it to the next waiters that fit, even if the entry was not found:
-- its lease may have lapsed. If the entry is to be kept, it stays retired. Returns 1 if the entry
-- held the lock, otherwise 0; second, how many entries of its owner still hold it; third, whether
-- grants are left for another call; fourth, the error if it can't be known; fifth, what note_run says of
-- the run. nil without an error: more entries have lapsed than one call removes, and nothing else was done. The first write is one that
-- is allowed when memory is out.
local function release(e, keep)
  there = nil
  local err = e.letter == 'x' and look() or nil
  if e.letter == 'x' and not err then
    there = held and ONE
  end
  -- By its name first: what is stored may be too long to be read (see meta in set.lua).
  local form, _, refused = held_as(e)
  err = refused or not is_other_type(err) and err
  if err then
    return nil, nil, nil, err
  elseif not form then
    local known, head = pcall(first_entry)
    if there == ONE or known and not head then
      return 0, 0, nil, nil, note_run and note_run(e, keep)
    end
  end
  if there == nil then
    err = stands_at(e)
    if err then
      return nil, nil, nil, err
    elseif drop_lapsed() then
      return nil
    end
    form = is_set() and form -- of a set that is not ours nothing is taken
  end
  local rest, noted = 0, nil
  if form then
    give_up(e, form, keep)
    rest = rest_of(e)
  end
  if note_run then
    noted = note_run(e, keep, form)
  end
  return form and 1 or 0, rest, grant_after(), nil, noted
end

--@ script
local found, rest, more, err, noted
if is_taken_back then
  found, rest, more = 1, 0, grant_after()
else
  found, rest, more, err, noted = release(entry_of(ARGV[1]), ARGV[2])
end
if err then
  return redis.error_reply(err)
elseif not found then
  return {10, T}
end
local is_refused = type(deleted) == 'table' and not is_other_type(deleted.err)
if rest == 0 and not more and not is_refused and not noted then
  return found
end
return {found, rest, more and 1 or 0, is_refused and 1 or 0, noted or 0}
