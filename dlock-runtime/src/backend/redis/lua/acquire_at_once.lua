-- The common cases of acquire.lua: a lock that is free and that nobody waits for, and a place in the queue of one
-- that is held. Without a function of its own, for the server would make each anew in each call.
local call, try = redis.call, redis.pcall
local lock, counter, W, value, place = KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[5]
local time = call('TIME')
local T = time[1] * 1000000 + time[2]
if T <= tonumber(ARGV[3]) then
  local is_free, held, left = try('EXISTS', lock, W) == 0, nil, 0
  if not is_free and place ~= '' then
    held = try('GET', lock)
    if type(held) == 'string' and held ~= value and string.sub(held, 1, 2) == '1|' then
      left = try('PTTL', lock)
    end
  end
  if is_free or type(left) == 'number' and left > 0 then
    -- As draw_epochs. First, so that all of it is refused when memory is out.
    local epoch, last = T, tonumber(call('SET', counter, string.format('%.0f', T), 'GET') or nil)
    if last and last >= T and last < 9007199254740991 then
      epoch = last + 1
      call('SET', counter, string.format('%.0f', epoch))
    end
    if is_free then
      call('SET', lock, value, 'PX', ARGV[2])
      return epoch == T and T or {1, T, epoch} -- a list costs more than a number
    end
    local A, entry = KEYS[4], place .. value
    local had_queue = call('PEXPIRE', W, QUEUE_TTL) -- as enter
    call('ZADD', W, 'NX', string.format('%.0f', epoch), entry)
    if had_queue == 0 then
      call('PEXPIRE', W, QUEUE_TTL)
    end
    call('ZADD', A, string.format('%.0f', T + HEARTBEAT), entry)
    call('PEXPIRE', A, QUEUE_TTL)
    return {3, T, left, held}
  end
end

