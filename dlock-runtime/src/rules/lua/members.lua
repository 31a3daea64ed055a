-- members: the meta of the set at a key, and a part of its other members, of each no more than any
-- reply tells. A set without a meta is a stranger's: none of it is read. Writes nothing.
-- KEYS  1 the set
-- ARGV  1 how many members are skipped, 2 how many are read
-- reply the meta; then each member and its score. {}: the key is absent, or a stranger's set
local members = redis.call('ZRANGE', KEYS[1], 'inf', 'inf', 'BYSCORE', 'REV', 'LIMIT', 0, 1)
if members[1] then
  local part = redis.call('ZRANGE', KEYS[1], '-inf', '(inf', 'BYSCORE', 'LIMIT', ARGV[1], ARGV[2], 'WITHSCORES')
  for i = 1, #part do
    members[i + 1] = part[i]
  end
end
for i = 1, #members do
  members[i] = string.sub(members[i], 1, 4096)
end
return members
