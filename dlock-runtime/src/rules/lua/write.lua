-- write: runs a batch of the user's own commands if the value still holds the lock; otherwise runs
-- none. Everything that could stop the batch half-way is checked before its first command, except
-- rights: a script can't ask which commands the user may run. The commands are those of
-- values/batch/change.rs.
-- KEYS  1 the lock, 2 … the data keys
-- ARGV  1 value, 2 not_after µs, 3 '1': a command after the first may be refused for lack of
--       memory, 4 the number of needs; for each need: its type, 'number' or 'field'; the index of
--       its key in KEYS; its field (otherwise ''); for each command: its name, the index of its
--       key, how many words follow, these words
-- reply {1}            all is written
--       {0}            the value does not hold the lock, or a value of another type is stored there
--       {5, T}         late: T is past not_after
--       {6, n}         need n is not met
--       {8, n, error}  command n was refused; those before it are written

-- A write to the lock that changes nothing and is refused when memory is out.
local function touch(e, form)
  if e.letter ~= 'x' then
    return redis.pcall('ZADD', lock, 'XX', 'GT', '0', form)
  end
  return redis.pcall('SET', lock, form, 'KEEPTTL')
end

-- At most 18 digits, so that the sum stays within 64 bits (extras/writes/known.rs bounds what a
-- batch adds).
local function is_number(text)
  local digits = not text or text == '0' and '0' or string.match(text, '^%-?([1-9]%d*)$')
  return digits == true or digits and #digits <= 18
end

local function is_met(what, key, field)
  if what == 'number' then
    return is_number(redis.call('GET', key))
  elseif what == 'field' then
    return is_number(redis.call('HGET', key, field))
  end
  local is = redis.call('TYPE', key).ok
  return is == 'none' or is == what
end

if T > tonumber(ARGV[2]) then
  return {5, T}
end
local e = entry_of(ARGV[1])
local err = e.letter == 'x' and look() or nil
local form, _, refused = held_as(e)
err = refused or not is_other_type(err) and err
if err then
  return redis.error_reply(err)
elseif not form then
  return {0}
end
local at = 5
for n = 1, tonumber(ARGV[4]) do
  if not is_met(ARGV[at], KEYS[tonumber(ARGV[at + 1])], ARGV[at + 2]) then
    return {6, n}
  end
  at = at + 3
end
if ARGV[3] == '1' then
  local touched = touch(e, form)
  if type(touched) == 'table' and touched.err then
    return redis.error_reply(touched.err .. ' (SET, ZADD)')
  end
end
local n = 0
while ARGV[at] do
  n = n + 1
  local words = tonumber(ARGV[at + 2])
  local key = KEYS[tonumber(ARGV[at + 1])]
  local done = redis.pcall(ARGV[at], key, unpack(ARGV, at + 3, at + 2 + words))
  if type(done) == 'table' and done.err then
    return {8, n, done.err}
  end
  at = at + 3 + words
end
return {1}
