-- rights: tries commands, each in a form that changes nothing if the key does not exist. The server
-- checks rights before anything else but the number of arguments.
-- KEYS  1 a key that does not exist; as a channel nobody listens to it
-- ARGV  for each command its name and what follows the key, separated by spaces
-- reply for each command that failed {name, the server's words}
local reply = {}
for _, words in ipairs(ARGV) do
  local call = {}
  for word in words:gmatch('%S+') do
    call[#call + 1] = word
    if #call == 1 then
      call[2] = KEYS[1]
    end
  end
  local answer = redis.pcall(unpack(call))
  if type(answer) == 'table' and answer.err then
    reply[#reply + 1] = {call[1], answer.err}
  end
end
return reply
