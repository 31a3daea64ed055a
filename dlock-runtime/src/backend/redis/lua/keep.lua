-- How many µs a key stays from T on although its holder is done (`min_hold`), nil if it goes; second,
-- the most ms. keep: 0, or until when (µs) and, behind a colon, for how many ms at most: the clock may
-- have been set back since the first was computed.
local function kept_for(keep, T)
  local ends, at_most = string.match(keep, '^(%d+):(%d+)$')
  local left = ends and math.min(ends - T, at_most * 1000)
  if left and left > 0 then
    return left, tonumber(at_most)
  end
  return nil
end

