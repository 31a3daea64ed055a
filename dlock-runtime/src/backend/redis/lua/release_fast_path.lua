-- The common case of release.lua: the lock is ours, nobody waits for it, and it need not stay. Where the server can
-- compare and delete in one command, that stands here instead of GET and DEL (scripts.rs).
local deleted
if ARGV[2] == '0' and redis.pcall('EXISTS', KEYS[3]) == 0 then
  deleted = redis.pcall('GET', KEYS[1]) == ARGV[1] and redis.call('DEL', KEYS[1])
  if deleted == 1 then
    return 1
  end
end

