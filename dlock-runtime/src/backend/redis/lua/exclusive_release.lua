-- Gives an exclusive lock back: 1 if it was this value's, else 0; second, the error where that can't be known; third,
-- whether there is more to do than one call does.
-- Before keep_until it stays, as nobody's: a retired value, which answers to no token, for the rest of
-- the time, and nobody is granted. Else the next one is, also where nothing was found: whoever held it
-- may have lapsed. The first writes are DEL, PEXPIRE or ZREMRANGEBYSCORE, for they are allowed when memory is out. T may be
-- nil, as above.
local function release(lock, counter, queue, heartbeats, value, keep_until, T)
  local held, err = look(lock)
  local there, more = false, nil
  if is_other_type(err) then
    there = meta(lock)
    if not there then
      return 0, nil
    end
    T = T or now()
    there, more = drop_lapsed(lock, there, T)
    if more then
      return 0, nil, true
    end
  elseif err then
    return nil, err
  elseif held and held ~= value then
    return 0, nil
  elseif held and keep_until > 0 then
    T = T or now()
    if keep_until > T then
      redis.call('PEXPIRE', lock, string.format('%.0f', math.ceil((keep_until - T) / 1000)))
      redis.call('SET', lock, (string.gsub(value, '^(1|x|)', '%1-', 1)), 'KEEPTTL')
      return 1, nil
    end
  end
  if held then
    redis.call('DEL', lock)
  end
  there, more = grant_all(lock, counter, queue, heartbeats, there, T)
  return held and 1 or 0, nil, more
end

