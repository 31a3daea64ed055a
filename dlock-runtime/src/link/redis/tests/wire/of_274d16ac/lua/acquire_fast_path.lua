-- The common cases of acquire.lua: a free lock with an empty queue, and a held lock, where the
-- caller enters the queue or is told the holder, if that is an entry no longer than ours. Defines no
-- functions, because the server would build each of them again on every call.
local call, try = redis.call, redis.pcall
local lock, counter, queue, value, queues = KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[5] == '1'
local time = call('TIME')
local T = time[1] * 1000000 + time[2]
if T <= tonumber(ARGV[3]) then
  local is_free, held, left = try('EXISTS', lock, queue) == 0, nil, 0
  if not is_free then
    held = try('GET', lock)
    if type(held) == 'string' and held ~= value and #held <= 4096 and string.sub(held, 1, 4) == '1|x|' then
      left = try('PTTL', lock)
    end
  end
  local is_held = type(left) == 'number' and left > 0
  if is_held and not queues then
    return {2, T, left, held}
  elseif is_free or is_held then
    -- Same as draw_epochs. Comes first, so that the whole call is refused when memory is out.
    local epoch, last = T, tonumber(call('SET', counter, string.format('%.0f', T), 'GET') or nil)
    if last and last >= T and last < 9007199254740991 then
      epoch = last + 1
      call('SET', counter, string.format('%.0f', epoch))
    end
    if is_free then
      call('SET', lock, value, 'PX', ARGV[2])
      return epoch == T and T or {1, T, epoch} -- a number is a cheaper reply than a list
    end
    local heartbeats = KEYS[4]
    local had_queue = call('PEXPIRE', queue, QUEUE_TTL) -- same as enter
    call('ZADD', queue, 'NX', string.format('%.0f', epoch), value)
    if had_queue == 0 then
      call('PEXPIRE', queue, QUEUE_TTL)
    end
    call('ZADD', heartbeats, string.format('%.0f', T + HEARTBEAT), value)
    call('PEXPIRE', heartbeats, QUEUE_TTL)
    return {3, T, left, held}
  end
end

