-- combined: releases and acquires of exclusive locks that several callers asked for at about the same time, each
-- with the outcome that its own script would have. One that fails hurts no other: nothing is raised past the
-- first write. What most of them need is done for all at once, the rest one by one.
-- KEYS  1 the counter of epochs, then for each item: the lock, W and A (see queue.lua)
-- ARGV  1 how many are releases, which come first: value and keep_until of each, as for release; then for each
--       acquire: value, lease ms, not_after µs, ttl ms for a key that has none, entry, as for acquire
-- reply T (0: nobody asked for the time), then for each: the epoch, if it was granted at T; what its own script
--       replies else; or {9, words}: it was refused with this error

local function keys(i)
  return KEYS[3 * i - 1], counter, KEYS[3 * i], KEYS[3 * i + 1]
end

-- An error is a text or a table, as versions differ.
local function refused(err)
  return {9, type(err) == 'table' and err.err or tostring(err)}
end

-- What is left after combined_at_once.lua, which stands before this.
for i = 1, releases do
  if not replies[i + 1] then
    local lock, _, W, A = keys(i)
    local done, found, err = pcall(release, lock, counter, W, A, ARGV[2 * i], tonumber(ARGV[2 * i + 1]), nil)
    replies[i + 1] = not (done and found) and refused(done and err or found) or found
  end
end
if not is_released and releases < number then
  pcall(acquire_at_once, waited_for)
end
local T = replies[1] > 0 and replies[1] or nil
for i = releases + 1, number do
  if not replies[i + 1] then
    local lock, _, W, A = keys(i)
    local value, lease, not_after, repair, entry = unpack(ARGV, arguments(i), arguments(i) + 4)
    not_after, repair = tonumber(not_after), tonumber(repair)
    local done, answer = pcall(acquire, lock, counter, W, A, value, lease, not_after, repair, entry, T)
    replies[i + 1] = done and not answer.err and answer or refused(answer)
  end
end
return replies
