-- The common case of renew.lua: a string key that still has the item's value.
local try, keys, arguments = redis.pcall, KEYS, ARGV
local behind = #arguments - #keys -- the value of item i is arguments[behind + i]
local replies, open, to, runs = {}, #keys, 0, {}
for n = 1, tonumber(arguments[1]) do
  runs[n] = {from = to + 1, to = to + arguments[2 * n], ttl = arguments[2 * n + 1]}
  to = runs[n].to
end
local values = try('MGET', unpack(keys))
for _, run in ipairs(runs) do
  local ttl, least = run.ttl, tonumber(run.ttl)
  for i = run.from, run.to do
    if values[i] == arguments[behind + i] then
      local left = try('PTTL', keys[i])
      if type(left) == 'number' and (left >= least or try('PEXPIRE', keys[i], ttl) == 1) then
        replies[i], open = 1, open - 1
      end
    end
  end
end
if open == 0 then
  return 1
end

