-- draw: draws an epoch for a lock that is held already.
-- KEYS  1 the epoch counter
-- reply the epoch
return draw_epochs(KEYS[1], now(), 1)
