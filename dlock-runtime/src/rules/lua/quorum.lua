-- quorum: keeps what a node knows about the quorum that it belongs to.
-- KEYS  1 the quorum's key
-- ARGV  1 the quorum of the caller, 2 ms for which it stays known
-- reply 1 known now; or the other quorum that this node belongs to
local there = redis.call('GET', KEYS[1])
if not there then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
elseif there == ARGV[1] then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
else
  return there
end
return 1
