-- Releases an exclusive lock. Returns 1 if the value held it, otherwise 0; second, the error if
-- that can't be known; third, whether work is left for another call. Before keep_until the key
-- stays for the remaining time, as a retired value that matches no token, and the lock is not
-- granted. Otherwise the lock is granted to the next waiter, also if the value was not found: the
-- lease may have lapsed. The first write is DEL, PEXPIRE or ZREMRANGEBYSCORE, which are allowed
-- when memory is out. T may be nil, as in exclusive.lua.
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

