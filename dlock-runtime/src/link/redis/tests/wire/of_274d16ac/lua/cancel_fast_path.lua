-- The common case of cancel.lua: another value holds the lock, so there is nothing to grant.
-- Defines no functions, because the server would build each of them again on every call.
local held = redis.pcall('GET', KEYS[1])
if type(held) == 'string' and held ~= ARGV[1] then
  local time, found = redis.call('TIME'), 0
  local T = time[1] * 1000000 + time[2]
  if ARGV[2] == '1' then
    redis.call('ZREM', KEYS[4], ARGV[1]) -- same as leave
    found = redis.call('ZREM', KEYS[3], ARGV[1])
  end
  return {found, (found == 1 or T > tonumber(ARGV[4])) and 1 or 0, T}
end

