-- The common case of release.lua: the value holds the lock, the queue is empty, and the key need
-- not be kept. If the server can compare and delete in one command, scripts.rs puts that command in
-- place of GET and DEL.
local deleted
if ARGV[2] == '0' and redis.pcall('EXISTS', KEYS[3]) == 0 then
  deleted = redis.pcall('GET', KEYS[1]) == ARGV[1] and redis.call('DEL', KEYS[1])
  if deleted == 1 then
    return 1
  end
end

