//! Time on the real server: what lives there is made to end earlier, or, where the case itself has taken a while, later.

use std::time::{Duration, Instant};

use redis::Value;

use crate::backend::redis::tests::lab::Lab;

/// So much may add up.
const DRIFT: Duration = Duration::from_millis(150);

/// Moves the end of each lock and queue, and each heartbeat, by so many ms.
const SHIFT: &str = "
    local by = tonumber(ARGV[1])
    for _, key in ipairs(KEYS) do
      local left = redis.call('PTTL', key)
      if left > 0 and left <= by then
        redis.call('DEL', key)
      elseif left > 0 then
        redis.call('PEXPIRE', key, left - by)
      end
      if string.find(key, '@a:', 1, true) then
        local beats = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
        for i = 1, #beats, 2 do
          redis.call('ZADD', key, string.format('%.0f', beats[i + 1] - by * 1000), beats[i])
        end
      end
    end";

pub(super) struct Clockwork {
    began: Instant,
    made_good: Duration,
    /// The most that was made good at once: what began in between may end so much too late.
    slack: Duration,
}

impl Clockwork {
    pub(super) fn start() -> Self {
        Self {
            began: Instant::now(),
            made_good: Duration::ZERO,
            slack: Duration::ZERO,
        }
    }

    /// How far the server's clock is ahead of the machine's, at most.
    pub(super) fn drift(&self) -> Duration {
        self.began.elapsed().saturating_sub(self.made_good)
    }

    /// How far it may be behind.
    pub(super) fn slack(&self) -> Duration {
        self.slack
    }

    pub(super) async fn pass(&self, seconds: u64, lab: &Lab, keys: &[String]) {
        shift(i64::try_from(seconds * 1000).unwrap(), lab, keys).await;
    }

    /// Takes back what real time has passed, before it is so much that an end passes which must not.
    pub(super) async fn make_good(&mut self, lab: &Lab, keys: &[String]) {
        let drift = self.drift();
        if drift > DRIFT {
            shift(-i64::try_from(drift.as_millis()).unwrap(), lab, keys).await;
            self.made_good += drift;
            self.slack = self.slack.max(drift);
        }
    }
}

async fn shift(by: i64, lab: &Lab, keys: &[String]) {
    let (count, by) = (keys.len().to_string(), by.to_string());
    let mut words = vec!["EVAL", SHIFT, &count];
    words.extend(keys.iter().map(String::as_str));
    words.push(&by);
    lab.tell::<Value>(&words).await;
}
