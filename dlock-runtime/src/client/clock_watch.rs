//! Whether the server's clock keeps pace with ours, as far as its answers prove it.
//!
//! An answer with time T to a command sent at s and received at h was given between s and h. So
//! between two answers our clock advanced by at least s2 - h1 and at most h2 - s1, whatever the
//! network did, while the server's advanced by T2 - T1. These bounds on its rate hold for any
//! delay, and nothing is reported before they prove it.

use std::time::Duration;

use crate::values::moment::Moment;
use crate::values::ttl::Margin;

/// The rate is judged over at least this time: a shorter disturbance moves no lease by much.
const OVER_AT_LEAST: Duration = Duration::from_secs(10);

/// After this time the rate is counted afresh, although nothing was proved.
const OVER_AT_MOST: Duration = Duration::from_secs(600);

/// A slewed clock never runs this fast or slow, so it was set; in quarters of our rate.
const STEPPED: (u64, u64) = (3, 5);

/// A smaller step is not reported.
const STEP_AT_LEAST: Duration = Duration::from_millis(20);

/// The server's time in an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClockAnswer {
    pub(crate) sent: Moment,
    pub(crate) heard: Moment,
    /// µs.
    pub(crate) time: u64,
}

/// What the answers proved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// It runs faster than ours by more than the margin allows, or slower: by at least this many
    /// ppm.
    Rate { ppm: i64 },
    /// It was set by at least this many µs, or another server answers now.
    Stepped { micros: i64 },
}

/// The answers of one server's clock, over all connections.
#[derive(Debug)]
pub(crate) struct ClockWatch {
    margin: Margin,
    latest: Option<ClockAnswer>,
    /// The answer from which the rate is counted.
    since: Option<ClockAnswer>,
    /// What was reported, until the clock is known to keep pace again: its rate, ppm.
    told_rate: Option<i64>,
    /// By how much it was set, µs.
    told_step: Option<i64>,
}

/// The time between two answers, µs.
struct Between {
    server: i64,
    /// The least by our clock.
    least: i64,
    most: i64,
}

impl ClockWatch {
    pub(crate) fn new(margin: Margin) -> Self {
        Self {
            margin,
            latest: None,
            since: None,
            told_rate: None,
            told_step: None,
        }
    }

    /// What was reported and still counts: the rate, ppm, and by how much it was set, µs.
    pub(crate) fn told(&self) -> (Option<i64>, Option<i64>) {
        (self.told_rate, self.told_step)
    }

    /// What to report: each kind once, until the clock is known to keep pace again.
    pub(crate) fn hear(&mut self, heard: ClockAnswer) -> Option<News> {
        let (Some(latest), Some(since)) = (self.latest, self.since) else {
            (self.latest, self.since) = (Some(heard), Some(heard));
            return None;
        };
        let step = Between::of(&latest, &heard)?.step(); // answers out of order prove nothing
        self.latest = Some(heard);
        if let Some(micros) = step {
            self.since = Some(heard);
            let is_news = self.told_step.replace(micros).is_none();
            return is_news.then_some(News::Stepped { micros });
        }
        let between = Between::of(&since, &heard)?;
        if between.most < micros(OVER_AT_LEAST) {
            return None;
        }
        let verdict = between.rate(self.margin);
        if verdict.is_some() || between.most > micros(OVER_AT_MOST) {
            self.since = Some(heard);
        }
        match verdict? {
            0 => {
                (self.told_rate, self.told_step) = (None, None);
                None
            }
            ppm => {
                let is_news = self.told_rate.replace(ppm).is_none();
                is_news.then_some(News::Rate { ppm })
            }
        }
    }
}

impl Between {
    /// `None`: the answers may have been given in any order.
    fn of(first: &ClockAnswer, second: &ClockAnswer) -> Option<Self> {
        let least = micros(first.heard.until(second.sent)).saturating_sub(1); // µs, rounded down
        let server = i128::from(second.time) - i128::from(first.time);
        (least > 0).then_some(Self {
            server: i64::try_from(server).unwrap_or(if server > 0 { i64::MAX } else { i64::MIN }),
            least,
            most: micros(first.sent.until(second.heard)).saturating_add(2),
        })
    }

    /// By how much the server's clock was set, at least.
    fn step(&self) -> Option<i64> {
        let quarters = |time: i64, by: u64| i128::from(time) * i128::from(by) / 4;
        let (slowest, fastest) = (
            quarters(self.least, STEPPED.0),
            quarters(self.most, STEPPED.1),
        );
        let server = i128::from(self.server);
        let by = if server > fastest {
            server - i128::from(self.most)
        } else if server < slowest {
            server - i128::from(self.least)
        } else {
            return None;
        };
        let by = i64::try_from(by).unwrap_or(if by > 0 { i64::MAX } else { i64::MIN });
        (i128::from(by).abs() >= i128::from(micros(STEP_AT_LEAST))).then_some(by)
    }

    /// 0: certainly within the margin; else by how many ppm it is outside, at least. `None`:
    /// nothing is proved.
    fn rate(&self, margin: Margin) -> Option<i64> {
        let (slow, fast) = (margin.slowest_ppm(), margin.fastest_ppm());
        let ppm = |ours: i64| {
            let rate = i128::from(self.server) * 1_000_000 / i128::from(ours.max(1));
            i64::try_from(rate - 1_000_000).unwrap_or(i64::MAX)
        };
        let (at_least, at_most) = (ppm(self.most), ppm(self.least).saturating_add(1));
        if at_least > fast {
            Some(at_least)
        } else if at_most < slow {
            Some(at_most)
        } else {
            (at_least >= slow && at_most <= fast).then_some(0)
        }
    }
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}
