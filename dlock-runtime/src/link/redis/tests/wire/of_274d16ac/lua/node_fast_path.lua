-- The common cases of node.lua for one item: a vote for a free lock, and a vote that is taken back
-- while nobody wants a hint. Defines no functions, as acquire_fast_path.lua.
if ARGV[2] == '1' then
  local call, try, lock = redis.call, redis.pcall, KEYS[1]
  local time = call('TIME')
  local T = time[1] * 1000000 + time[2]
  if ARGV[3] == 'v' and T <= tonumber(ARGV[6]) and try('EXISTS', lock) == 0 then
    -- The counter comes first, so that the whole call is refused when memory is out.
    local epoch, last = tonumber(ARGV[8]), tonumber(call('SET', KEYS[2], ARGV[8], 'GET') or nil)
    if last and last >= epoch and last < 9007199254740991 then
      epoch = last + 1
      call('SET', KEYS[2], string.format('%.0f', epoch))
    end
    call('SET', lock, ARGV[9], 'PX', ARGV[5])
    return {T, epoch}
  elseif ARGV[3] == 'b' and tonumber(ARGV[5]) <= T and try('GET', lock) == ARGV[6] then
    if try('EXISTS', KEYS[2]) == 0 and call('DEL', lock) == 1 then
      return {T, 1}
    end
  end
end
