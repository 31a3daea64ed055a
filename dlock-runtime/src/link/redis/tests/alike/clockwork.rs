//! Passes time on the real server without waiting: everything that is stored there is made to end
//! earlier.

use std::time::{Duration, Instant};

use redis::Value;

use crate::link::redis::tests::lab::Lab;

/// The most real time that a case may take. Ends are either half a second away from the times at
/// which anything is compared, or exactly on them.
const MOST_DRIFT: Duration = Duration::from_millis(400);

/// Moves the end of each lock and queue, of each holder and each heartbeat, by this many ms towards
/// now. A set is deleted with its last holder; that the key itself may outlive the holder by 2 ms
/// is tested elsewhere.
const SHIFT: &str = "
    local by = tonumber(ARGV[1])
    for _, key in ipairs(KEYS) do
      local left = redis.call('PTTL', key)
      local last = redis.pcall('ZRANGE', key, -1, -1)[1]
      local is_set = last and string.sub(last, 1, 4) == '1|#|'
      if left > 0 and left <= by + (is_set and 2 or 0) then
        redis.call('DEL', key)
      elseif left > 0 then
        redis.call('PEXPIRE', key, left - by)
      end
      if is_set or string.find(key, '@a[:#]') then
        local beats = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
        for i = 1, #beats, 2 do
          redis.call('ZADD', key, string.format('%.0f', beats[i + 1] - by * 1000), beats[i])
        end
      end
      local start, rest = string.match(string.find(key, '@r[:#]') and redis.call('GET', key) or '', '^1|(%d+)(|%d+|%d+|%d+|.*)$')
      if start and #start == 16 then
        redis.call('SET', key, string.format('1|%.0f', start - by * 1000) .. rest, 'KEEPTTL')
      end
      local writers = string.find(key, '@h[:#]')
        and redis.call('ZRANGE', key, '4503599627370496', '+inf', 'BYSCORE', 'WITHSCORES') or {}
      for i = 1, #writers, 2 do
        redis.call('ZADD', key, string.format('%.0f', writers[i + 1] - by * 1000), writers[i])
      end
    end";

pub(super) struct Clockwork(Instant);

impl Clockwork {
    pub(super) fn start() -> Self {
        Self(Instant::now())
    }

    /// An upper bound of how far the server's clock is ahead of the machine's.
    pub(super) fn drift(&self) -> Duration {
        self.0.elapsed()
    }

    /// Whether so much real time has passed that something may have ended on the server but not in
    /// the machine.
    pub(super) fn is_useless(&self) -> bool {
        self.drift() > MOST_DRIFT
    }
}

pub(super) async fn pass(seconds: u64, lab: &Lab, keys: &[String]) {
    let (count, by) = (keys.len().to_string(), (seconds * 1000).to_string());
    let mut words = vec!["EVAL", SHIFT, &count];
    words.extend(keys.iter().map(String::as_str));
    words.push(&by);
    lab.tell::<Value>(&words).await;
}
