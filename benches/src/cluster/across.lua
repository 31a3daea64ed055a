-- Releases and acquires of locks of any slots of this node, each under a pcall of its own, so that one
-- whose slot is not (or only partly) here does not affect the others. The common cases only.
-- ARGV  1 the number of releases, 2 of acquires, 3 lease ms; then for each release: lock, queue and
--       value; for each acquire: lock, queue, counter and value
-- reply for each item: 1 or the epoch; 0: not the common case; or the words of its error
local call, arguments, T = redis.call, ARGV, 0

local function give(at)
  if call('EXISTS', arguments[at + 1]) == 0 and call('GET', arguments[at]) == arguments[at + 2] then
    return call('DEL', arguments[at])
  end
  return 0
end

local function take(at)
  if call('EXISTS', arguments[at], arguments[at + 1]) ~= 0 then
    return 0
  end
  local counter = arguments[at + 2]
  local epoch, last = T, tonumber(call('SET', counter, string.format('%.0f', T), 'GET') or nil)
  if last and last >= T and last < 9007199254740991 then
    epoch = last + 1
    call('SET', counter, string.format('%.0f', epoch))
  end
  call('SET', arguments[at], arguments[at + 3], 'PX', arguments[3])
  return epoch
end

local replies, at = {}, 4
for _ = 1, arguments[1] do
  local done, answer = pcall(give, at)
  replies[#replies + 1] = done and answer or tostring(type(answer) == 'table' and answer.err or answer)
  at = at + 3
end
local time = call('TIME')
T = time[1] * 1000000 + time[2]
for _ = 1, arguments[2] do
  local done, answer = pcall(take, at)
  replies[#replies + 1] = done and answer or tostring(type(answer) == 'table' and answer.err or answer)
  at = at + 4
end
return replies
