-- node: what clients ask of a node of a quorum about exclusive locks (policy/server/voting.rs has the
-- semantics). Each item fails by itself; those about one lock are executed in the given order.
-- KEYS  for each run of items: their locks and then, except for b, their epoch counters; last, a key
--       that exists while anybody wants a hint at this node. The hints of a lock (hints.lua), which
--       stay for HINTS_TTL after the last arrival, are named below and not by the caller: few calls
--       need them, and no node is part of a cluster
-- ARGV  the namespace, the number of items; then runs of consecutive items with the same parameters:
--       v, item count, lease ms, not_after µs, channel for a hint ('-': none, but the caller waits;
--          '': it does not wait), proposed epoch; for each item: value
--       a, item count; for each item: value, epoch to adopt
--       b, item count, keep_until µs; for each item: value
-- reply {T} if there are several items, all v or b, and each was done as asked: granted with the
--       proposed epoch, or taken back where the value held the lock; otherwise
--       T, then for each item
--       of v: epoch                              granted
--             {2, pttl, value, last epoch, rank} busy; rank: how many get a hint earlier
--             {5}                                late: T is past not_after
--             {6, other}                         as for acquire.lua
--             {8, there}                         as for acquire.lua
--       of a: 1 adopted, 0 the value does not hold the lock
--       of b: 1 the value held the lock, 0 it did not
--       {9, words}: the item was refused with this error
local try, keys, arguments = redis.pcall, KEYS, ARGV
local namespace, number, somebody_wants = arguments[1], tonumber(arguments[2]), keys[#keys]
local time = redis.call('TIME')
local T = time[1] * 1000000 + time[2]
local replies = {T}

-- The common cases of a batch, over all items of a run at once: votes taken back, then votes for free
-- locks. What is left open is executed below, item by item, and so is everything from the first run
-- on that does not fit.
local freed, are_told = {}, true -- freed[i]: item i has freed its lock, whose hints are looked at below
if number > 1 then
  local at, k, i, open, has_freed, has_voted = 3, 1, 0, number, false, false
  local is_as_asked = true
  while i < number do
    local operation, count = arguments[at], tonumber(arguments[at + 1])
    if operation == 'b' and not has_voted and tonumber(arguments[at + 2]) <= T then
      local held = try('MGET', unpack(keys, k, k + count - 1)) -- false for a value of another type, too
      if held.err then
        break
      end
      local gone, is_gone = {}, {}
      for n = 1, count do
        local lock = keys[k + n - 1]
        if held[n] == arguments[at + 2 + n] and not is_gone[lock] then
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
      -- the code below.
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
  are_told = (has_freed or open > 0) and try('EXISTS', somebody_wants) ~= 0
  if open == 0 and not are_told then
    return is_as_asked and {T} or replies
  end
end

-- As Names of names.rs.
local function hints_of(lock)
  local from = string.find(lock, '{', 1, true)
  local to = from and string.find(lock, '}', from + 1, true)
  if to and to > from + 1 then
    return namespace .. '@h#' .. string.sub(lock, #namespace + 1)
  end
  return namespace .. '@h:{' .. lock .. '}'
end

local function refused(err)
  return {9, err.err .. (err.line and ', node, on @user_script:' .. err.line or '')}
end

local at, k, i = 3, 1, 0
while i < number do
  local operation, count = arguments[at], tonumber(arguments[at + 1])
  at = at + 2
  if operation == 'v' then
    local lease, is_late, channel = arguments[at], T > tonumber(arguments[at + 1]), arguments[at + 2]
    local proposal = arguments[at + 3]
    at = at + 4
    for _ = 1, count do
      i = i + 1
      if not replies[i + 1] then
        local value, lock, counter, err = arguments[at], keys[k], keys[k + count], nil
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
            local hints, told = hints_of(lock), try('SET', somebody_wants, 1, 'PX', HINTS_TTL)
            are_told = true
            local done = told.err and told or try('ZADD', hints, 'NX', string.format('%.0f', T), channel)
            if type(done) == 'number' then
              done = try('PEXPIRE', hints, HINTS_TTL)
              if type(done) == 'table' then
                try('DEL', hints) -- rather than a key without a time to live
              end
            end
            rank = type(done) == 'number' and try('ZRANK', hints, channel) or done
            err = type(rank) == 'table' and rank
          end
          replies[i + 1] = {2, left, string.sub(holder, 1, 4096), last, rank} -- as beginning in set.lua
        elseif string.find(held.err, 'WRONGTYPE', 1, true) then
          if meta and string.sub(meta, 1, 4) == '1|#|' then
            replies[i + 1] = {8, string.sub(meta, 1, 4096)}
          else
            replies[i + 1] = {6, meta and string.find(meta, '^%d+|#|') and 1 or 0}
          end
        else
          err = held
        end
        if err then
          replies[i + 1] = refused(err)
        end
      end
      at, k = at + 1, k + 1
    end
    k = k + count
  elseif operation == 'a' then
    for _ = 1, count do
      i = i + 1
      local value, epoch = arguments[at], tonumber(arguments[at + 1])
      local lock, counter, err = keys[k], keys[k + count], nil
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
        replies[i + 1] = refused(err)
      end
      at, k = at + 2, k + 1
    end
    k = k + count
  else
    local keep_until = tonumber(arguments[at])
    at = at + 1
    for _ = 1, count do
      i = i + 1
      local lock = keys[k]
      if not replies[i + 1] then
        local value, err = arguments[at], nil
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
          replies[i + 1] = refused(err)
        end
      end
      if freed[i] and are_told then
        hint(hints_of(lock), lock, T)
      end
      at, k = at + 1, k + 1
    end
  end
end
return replies
