-- The record of a key's last run, beside the lock: of a job that runs once per period (`once_per`).
-- 1|<start µs>|<end µs, or 0>|<period ms>|<epoch>|<host>|<pid>|<function>
-- and any fields that a later version of this layout appends. It ends with its period. Its name is the
-- queue's with another letter, and is not declared: few calls touch it, and it is in the lock's slot.

--@ due
-- The reply if an entry runs once per period, and was run within it; nil if it may run. Its period counts
-- from the start of the last run, and no longer than itself: the clock may have been set back, and then
-- the record counts from now on. A record of another layout counts until it ends; one that would never end,
-- for this period from now on.
local function not_due(e)
  local record = e.letter == 'x' and (e.of or 0) > 0 and string.gsub(queue, '@w', '@r', 1)
  local text = record and redis.pcall('GET', record)
  if type(text) == 'table' then
    return text -- an error, which only the caller whose entry it is must get
  elseif not text or text == '' then
    return nil
  end
  local left, whole = nil, e.of * 1000
  local start, ends, period, behind = string.match(text, '^1|(%d+)|(%d+)|(%d+)|(%d+|.*)$')
  local epoch = start and string.match(behind, '^%d+')
  if start and math.max(#start, #ends, #epoch) <= 16 and #period <= 12 and tonumber(period) > 0 then
    if there and tonumber(ends) == 0 then
      return nil -- another holds the lock whose run is not over and may fail
    end
    left = math.min(start - T + whole, whole)
    if tonumber(start) > T then
      text = '1|' .. digits .. '|' .. ends .. '|' .. period .. '|' .. behind
      redis.call('SET', record, text, 'PX', period)
    end
  else
    left = redis.call('PTTL', record) * 1000
    if left < 0 then
      redis.pcall('PEXPIRE', record, e.of)
      left = whole
    end
  end
  return left > 0 and {11, T, math.ceil(left / 1000), beginning(text)} or nil
end

--@ no_run
-- Nobody here ends a run.
local note_run

--@ run
-- What a holder says of its run; returns 1 if the record tells of it. ends: 0 before its body. outcome:
-- 'done' if it is to be recorded, 'undone' if its record is to be removed.
local function note(value, start, epoch, outcome, found, ends)
  local record = string.gsub(queue, '@w', '@r', 1)
  if found and outcome == 'done' then
    local period, about = string.match(value, '^1|x|[^|]+|[^|]*|%d+|0|(%d+)|[^|]*|([^|]*|[^|]*|[^|]*)')
    local left = period and math.ceil(math.min(start - T + period * 1000, period * 1000) / 1000)
    if left and left > 0 then
      redis.call('SET', record, '1|' .. start .. '|' .. ends .. '|' .. period .. '|' .. epoch .. '|' .. about,
        'PX', string.format('%.0f', left))
    else
      redis.call('DEL', record) -- the run took its whole period
    end
    return 1
  end
  local text = redis.pcall('GET', record)
  local is_its = type(text) == 'string' and string.match(text, '^1|%d+|%d+|%d+|(%d+)|') == epoch
  if is_its and found then
    redis.call('DEL', record)
  end
  return is_its and outcome == 'done' and 1 or 0
end

--@ note_run
-- The same by a release. keep: behind a semicolon the start, the epoch and the outcome. A release that
-- is repeated may have found the lock the first time. An error must not replace the reply: the lock has
-- been given up.
local function note_run(e, keep, found)
  local start, epoch, outcome = string.match(keep, ';(%d+):(%d+):(%l+)$')
  if not start then
    return 0
  end
  local done, noted = pcall(note, e.value, start, epoch, outcome, found, digits)
  return done and noted or 0
end

--@ script
-- note_run: records before its body that an entry runs, if it holds the lock.
-- KEYS  1 the lock, 2 the epoch counter, 3 queue and 4 heartbeats of the lock (see queue.lua)
-- ARGV  1 entry, 2 start µs, 3 epoch, 4 the fleet's secret, which is not used
-- reply 1, or 0: the entry does not hold the lock
local err = look()
if err then
  return is_other_type(err) and 0 or redis.error_reply(err)
end
return held == ARGV[1] and note(ARGV[1], ARGV[2], ARGV[3], 'done', true, '0') or 0
