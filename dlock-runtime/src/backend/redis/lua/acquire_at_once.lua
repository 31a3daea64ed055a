-- The common case of acquire.lua. Who may not ask, or is late, goes the long way.
local lock, counter, W, A, T = KEYS[1], KEYS[2], KEYS[3], KEYS[4], now()
if T <= tonumber(ARGV[3]) and redis.pcall('EXISTS', lock, W) == 0 then
  return take(lock, counter, ARGV[1], ARGV[2], T)
end

