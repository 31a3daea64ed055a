-- The common case of release.lua: the lock is ours, nobody waits for it, and it need not stay.
if ARGV[2] == '0' and redis.pcall('EXISTS', KEYS[3]) == 0 and redis.pcall('GET', KEYS[1]) == ARGV[1] then
  redis.call('DEL', KEYS[1])
  return 1
end

