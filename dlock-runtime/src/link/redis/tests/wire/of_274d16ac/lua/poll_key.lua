-- poll_key: reports what became of a queued claim of any kind, with the lock's key alone
-- (by_key.lua). Never creates.
-- KEYS  1 the lock
-- ARGV  1 value or entry
-- reply {3, T, left, entry}  held by others
--       {4, T, 0, left}      the value holds the lock
--       {6, T, other}        as for poll
--       {7, T}               the lock would be granted if nobody stood before this claim
--       {10, T}              undecided: more entries have lapsed than one call removes
local lock, e, T = KEYS[1], read_entry(ARGV[1]), now()
if not e then
  return redis.error_reply(NO_ENTRY)
end
local there, err = stands_at(lock)
if is_other_type(err) then
  return other_type(lock, T)
elseif err then
  return redis.error_reply(err)
end
local more
there, more = drop_lapsed(lock, there, T)
if more then
  return {10, T}
elseif fits(lock, there, e) and not held_as(lock, there, e, T) then
  return {7, T}
end
local left, named = in_the_way(lock, there, T)
if there == ONE and named == e.value then
  return yours(lock, nil, T)
end
return yours_among(lock, nil, there, e, T) or {3, T, left, named}
