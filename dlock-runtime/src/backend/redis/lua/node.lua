-- node: what clients ask of a node of a quorum (policy/server/voting.rs has the semantics). Each
-- item fails by itself; they are executed in the given order. Defines no functions, because the
-- server would build each of them again on every call.
-- KEYS  for each item: the lock, its epoch counter, its hints: the channels at which others want to
--       be told that the lock is free, by arrival (µs), for HINTS_TTL after the last arrival
-- ARGV  runs of consecutive items with the same parameters:
--       v, item count, lease ms, not_after µs, channel for a hint ('-': none, but the caller waits;
--          '': it does not wait); for each item: value, proposed epoch
--       a, item count; for each item: value, epoch to adopt
--       b, item count, keep_until µs; for each item: value
-- reply T, then for each item
--       of v: epoch                              granted
--             {2, pttl, value, last epoch, rank} busy; rank: how many get a hint earlier
--             {5}                                late: T is past not_after
--             {6, other}                         as for acquire.lua
--             {8, there}                         as for acquire.lua
--       of a: 1 adopted, 0 the value does not hold the lock
--       of b: 1 the value held the lock, 0 it did not
--       {9, words}: the item was refused with this error
local HINTS_TTL, HINTS_AT_ONCE = 7000, 3 -- as in policy/quorum/commands.rs (a test compares them)
local try, keys, arguments = redis.pcall, KEYS, ARGV
local number = #keys / 3
local time = redis.call('TIME')
local T = time[1] * 1000000 + time[2]
local replies = {T}

-- The common cases of a batch, over all items at once: votes for free locks, and votes taken back.
-- What is left open is executed below, item by item: all of a lock behind its first open item, and
-- whatever comes behind a vote for the same lock.
local freed, has_hints = {}, false -- freed[i]: item i has freed its lock, whose hints are looked at below
if number > 1 then
  local locks = {}
  for n = 1, number do
    locks[n] = keys[3 * n - 2]
  end
  local held = try('MGET', unpack(locks)) -- false for a value of another type, too
  local open, is_open, state = number, {}, {} -- state[lock]: what stands there behind the items so far
  local votes, values, proposals, leases, counters = {}, {}, {}, {}, {}
  local gone, hints = {}, {}
  local at, i = 1, 0
  while i < number and not held.err do
    local operation, count = arguments[at], tonumber(arguments[at + 1])
    if operation == 'v' then
      local lease, is_late = arguments[at + 2], T > tonumber(arguments[at + 3])
      at = at + 5
      for _ = 1, count do
        i = i + 1
        local lock = locks[i]
        local there = state[lock]
        if there == nil then
          there = held[i]
        end
        if is_late then
          replies[i + 1], open = {5}, open - 1
        elseif there then
          is_open[lock] = true
        else
          local n = #votes + 1
          state[lock], votes[n], values[n] = arguments[at], i, arguments[at]
          proposals[n], leases[n], counters[n] = arguments[at + 1], lease, keys[3 * i - 1]
          is_open[lock] = true -- for what comes behind it
        end
        at = at + 2
      end
    elseif operation == 'b' then
      local may_go = tonumber(arguments[at + 2]) <= T
      at = at + 3
      for _ = 1, count do
        i = i + 1
        local lock = locks[i]
        local there = state[lock]
        if there == nil then
          there = held[i]
        end
        if is_open[lock] then
          -- below
        elseif there ~= arguments[at] then
          replies[i + 1], open = 0, open - 1
        elseif may_go then
          local n = #gone + 1
          gone[n], hints[n], freed[i], state[lock] = lock, keys[3 * i], true, false
          replies[i + 1], open = 1, open - 1
        else
          is_open[lock] = true
        end
        at = at + 1
      end
    else
      -- An adoption may raise the counter of the votes behind it, and is rare.
      replies, open, freed, votes, gone = {T}, number, {}, {}, {}
      break
    end
  end

  -- The counters are written before all else. One that has not been drawn from yet is left to the
  -- code below.
  local epochs, is_drawn = {}, false
  if votes[1] then
    local last, drawn, sets = try('MGET', unpack(counters)), {}, {}
    for n = 1, last.err and 0 or #votes do
      local counter, epoch = counters[n], tonumber(proposals[n])
      local before = drawn[counter] or tonumber(last[n] or nil)
      if before and before >= 0 and before < 9007199254740990 then
        local text = proposals[n]
        if before >= epoch then
          epoch = before + 1
          text = string.format('%.0f', epoch)
        end
        drawn[counter], epochs[n] = epoch, epoch
        sets[#sets + 1] = counter
        sets[#sets + 1] = text
      end
    end
    is_drawn = sets[1] and try('MSET', unpack(sets)).ok
  end
  if gone[1] then
    has_hints = try('EXISTS', unpack(hints)) ~= 0
    if try('DEL', unpack(gone)) ~= #gone then -- refused
      local is_gone = {}
      for n = 1, #gone do
        is_gone[gone[n]] = true
      end
      for n = 1, number do
        if is_gone[locks[n]] and replies[n + 1] then
          replies[n + 1], freed[n], open = nil, nil, open + 1
        end
      end
    end
  end
  for n = 1, is_drawn and #votes or 0 do
    local i, epoch = votes[n], epochs[n]
    local set = epoch and try('SET', locks[i], values[n], 'NX', 'PX', leases[n])
    if set and set.ok then
      replies[i + 1], open = epoch, open - 1
    end
  end
  if open == 0 and not has_hints then
    return replies
  end
end

local at, i = 1, 0
while i < number do
  local operation, count = arguments[at], tonumber(arguments[at + 1])
  at = at + 2
  if operation == 'v' then
    local lease, is_late, channel = arguments[at], T > tonumber(arguments[at + 1]), arguments[at + 2]
    at = at + 3
    for _ = 1, count do
      i = i + 1
      if not replies[i + 1] then
        local value, proposal = arguments[at], arguments[at + 1]
        local lock, counter, err = keys[3 * i - 2], keys[3 * i - 1], nil
        local held = not is_late and try('GET', lock)
        local meta, holder, ends = nil, held, nil
        if type(held) == 'table' and string.find(held.err, 'WRONGTYPE', 1, true) then
          -- A set of a kind with many holders, or another program's value.
          meta = try('ZRANGE', lock, -1, -1)[1]
          if meta and channel ~= '' and string.sub(meta, 1, 4) == '1|#|' then
            -- As in_the_way in set.lua; if all entries have lapsed, the lock is free.
            local after = string.format('(%.0f', T)
            local first = try('ZRANGE', lock, after, '+inf', 'BYSCORE', 'LIMIT', 0, 16, 'WITHSCORES')
            holder, ends = first[1], tonumber(first[2])
            held = ends ~= math.huge and held
            for n = 1, #first, 2 do
              if not string.find(first[n], '^1|.|%-') and string.sub(first[n], 1, 4) ~= '1|#|' then
                holder = first[n]
                break
              end
            end
          end
        end
        if is_late then
          replies[i + 1] = {5}
        elseif not held then
          -- The counter comes first, so that the item is refused as a whole when memory is out. A
          -- stored value that was not drawn here (not a number, or too large for exact doubles) is
          -- replaced.
          local epoch, last = tonumber(proposal), try('SET', counter, proposal, 'GET')
          if type(last) == 'table' then
            err = last
          else
            last = tonumber(last or nil)
            if last and last >= epoch and last < 9007199254740991 then
              epoch = last + 1
              local set = try('SET', counter, string.format('%.0f', epoch))
              err = set.err and set
            end
          end
          if not err then
            local set = try('SET', lock, value, 'PX', lease)
            err = set.err and set
            replies[i + 1] = epoch
          end
        elseif held == value then
          -- The command was duplicated on its way. What was drawn for it is not above this.
          local last = try('GET', counter)
          err = type(last) == 'table' and last
          replies[i + 1] = tonumber(not err and last or nil) or tonumber(proposal)
        elseif type(holder) == 'string' then
          local left, last, rank = nil, try('GET', counter), 0
          left = ends and math.ceil((ends - T) / 1000) or try('PTTL', lock)
          err = type(left) == 'table' and left or type(last) == 'table' and last
          last = tonumber(not err and last or nil)
          if not (last and last >= 0 and last <= 9007199254740991) then
            last = 0
          end
          if not err and channel ~= '' and channel ~= '-' then
            local hints = keys[3 * i]
            local done = try('ZADD', hints, 'NX', string.format('%.0f', T), channel)
            if type(done) == 'number' then
              done = try('PEXPIRE', hints, HINTS_TTL)
              if type(done) == 'table' then
                try('DEL', hints) -- rather than a key without a time to live
              end
            end
            rank = type(done) == 'number' and try('ZRANK', hints, channel) or done
            err = type(rank) == 'table' and rank
          end
          replies[i + 1] = {2, left, holder, last, rank}
        elseif string.find(held.err, 'WRONGTYPE', 1, true) then
          if meta and string.sub(meta, 1, 4) == '1|#|' then
            replies[i + 1] = {8, meta}
          else
            replies[i + 1] = {6, meta and string.find(meta, '^%d+|#|') and 1 or 0}
          end
        else
          err = held
        end
        if err then
          replies[i + 1] = {9, err.err .. (err.line and ', node, on @user_script:' .. err.line or '')}
        end
      end
      at = at + 2
    end
  elseif operation == 'a' then
    for _ = 1, count do
      i = i + 1
      local value, epoch = arguments[at], tonumber(arguments[at + 1])
      local lock, counter, err = keys[3 * i - 2], keys[3 * i - 1], nil
      local held = try('GET', lock)
      if held == value then
        local last = try('GET', counter)
        if type(last) == 'table' then
          err = last
        else
          last = tonumber(last or nil)
          if not (last and last >= epoch and last < 9007199254740991) then
            local set = try('SET', counter, arguments[at + 1])
            err = set.err and set
          end
          replies[i + 1] = 1
        end
      elseif type(held) == 'table' and not string.find(held.err, 'WRONGTYPE', 1, true) then
        err = held
      else
        replies[i + 1] = 0
      end
      if err then
        replies[i + 1] = {9, err.err .. (err.line and ', node, on @user_script:' .. err.line or '')}
      end
      at = at + 2
    end
  else
    local keep_until = tonumber(arguments[at])
    at = at + 1
    for _ = 1, count do
      i = i + 1
      if not replies[i + 1] then
        local value, lock, err = arguments[at], keys[3 * i - 2], nil
        local held = try('GET', lock)
        if held == value and keep_until > T then
          -- The first write is PEXPIRE or DEL, which are allowed when memory is out.
          local done = try('PEXPIRE', lock, string.format('%.0f', math.ceil((keep_until - T) / 1000)))
          if type(done) == 'number' then
            done = try('SET', lock, (string.gsub(value, '^(1|x|)', '%1-', 1)), 'KEEPTTL')
          end
          err = type(done) == 'table' and done.err and done
          replies[i + 1] = 1
        elseif held == value then
          local done = try('DEL', lock)
          err = type(done) == 'table' and done
          freed[i] = not err
          replies[i + 1] = 1
        elseif type(held) == 'table' and not string.find(held.err, 'WRONGTYPE', 1, true) then
          err = held
        else
          replies[i + 1] = 0
        end
        if err then
          replies[i + 1] = {9, err.err .. (err.line and ', node, on @user_script:' .. err.line or '')}
        end
      end
      if freed[i] then
        -- A hint: one of those who wait is told that it is worth asking again. An error ends this:
        -- the user may have no right to publish, and the lock is free all the same.
        for _ = 1, HINTS_AT_ONCE do
          local wants = try('ZPOPMIN', keys[3 * i])[1]
          if not wants or try('PUBLISH', wants, '1|freed\n' .. keys[3 * i - 2]) ~= 0 then
            break
          end
        end
      end
      at = at + 1
    end
  end
end
return replies
