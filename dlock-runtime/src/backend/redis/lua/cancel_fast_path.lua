-- The common case of cancel.lua: another value holds the lock, so there is nothing to grant.
-- Defines no functions, because the server would build each of them again on every call.
local lock = KEYS[1]
local held, found = redis.pcall('GET', lock), 0
local is_others = type(held) == 'string' and held ~= '' and held ~= ARGV[1]
if is_others and ARGV[2] == '1' then
  redis.pcall('ZREM', KEYS[4], ARGV[1]) -- same as leave
  found = redis.pcall('ZREM', KEYS[3], ARGV[1])
end
if is_others and type(found) == 'number' then
  local time = redis.call('TIME')
  local T = time[1] * 1000000 + time[2]
  return {found, (found == 1 or T > tonumber(ARGV[4])) and 1 or 0, T}
end

