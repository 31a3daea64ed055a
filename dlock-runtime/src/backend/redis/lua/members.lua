-- members: a part of the set at a key, of each member no more than any reply tells. Writes nothing.
-- KEYS  1 the set
-- ARGV  as for ZRANGE, behind its key
-- reply as of ZRANGE with RESP2
local members = redis.call('ZRANGE', KEYS[1], unpack(ARGV))
for i = 1, #members do
  members[i] = string.sub(members[i], 1, 4096)
end
return members
