-- The other common case of release.lua: the value holds the lock, the key need not be kept, and the
-- head of the queue is alive and receives the push. If the push reaches no subscriber, `unsubscribed_at`
-- tells release.lua the run id of the server in the head's address.
local lock, counter, queue, heartbeats = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local call, try = redis.call, redis.pcall
local unsubscribed_at
local head = ARGV[2] == '0' and try('GET', lock) == ARGV[1] and try('ZRANGE', queue, 0, 0)[1]
local run_id, channel, lease = string.match(head or '', '^1|x|[^|]+|(%x*);([^|]+)|(%d+)|%d+|%d+|[^|]*|')
if channel and #lease <= 15 and tonumber(lease) > 0 then
  local time = call('TIME')
  local T = time[1] * 1000000 + time[2]
  local now = string.format('%.0f', T)
  -- If no entry has lapsed, every entry in the heartbeats is alive. If any step up to the removal
  -- of the head is refused, release.lua does the release, which deletes the lock first.
  local lapsed, last = try('ZRANGE', heartbeats, '-inf', now, 'BYSCORE', 'LIMIT', 0, 1), nil
  if not lapsed.err and #lapsed == 0 then
    last = try('SET', counter, now, 'GET') or ''
  end
  local is_drawn, epoch = type(last) == 'string', now
  last = is_drawn and tonumber(last)
  if last and last >= T and last < 9007199254740991 then -- same as draw_epochs
    epoch = string.format('%.0f', last + 1)
    call('SET', counter, epoch)
  end
  if is_drawn and try('ZREM', heartbeats, head) == 1 then
    call('ZREM', queue, head)
    lease = math.min(lease, CLAIM)
    call('SET', lock, head, 'PX', lease)
    local message = '1|granted\n' .. lock .. '\n' .. head .. '\n' .. epoch .. '\n' .. now .. '\n' .. lease
    local secret, mac = ARGV[3], ''
    if secret ~= '' then -- same as mac
      mac = redis.sha1hex(secret .. redis.sha1hex(secret .. channel .. '\n' .. message))
    end
    local heard = try('PUBLISH', channel, message .. '\n' .. mac) -- same as publish
    if type(heard) == 'table' or heard > 0 then
      return 1
    end
    unsubscribed_at = run_id
  end
end

