//! What a seed decides: who takes part, how far they are from the server, what they request, and
//! what may go wrong.
//!
//! Each seed draws its own plan, so that some fleets often meet one kind of fault and others meet
//! all kinds.

use std::time::Duration;

use fastrand::Rng;

use super::network::Latency;
use crate::client::lease::LeaseTerms;
use crate::client::tests::explore::kind::Asks;
use crate::client::tests::explore::mutants::Mutant;
use crate::client::tests::explore::run::{Order, Run, Wants};
use crate::values::bounds::Bounds;
use crate::values::ttl::{Margin, Ttl};

/// What a fleet requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Theme {
    /// Several contenders in a process, which hand the lock on.
    Exclusive,
    /// A local queue of its own for each contender.
    Fair,
    ReadWrite,
    Permits,
    Owners,
    /// Kinds that exclude each other, at one key.
    Mixed,
}

pub(super) const THEMES: [Theme; 6] = [
    Theme::Exclusive,
    Theme::Fair,
    Theme::ReadWrite,
    Theme::Permits,
    Theme::Owners,
    Theme::Mixed,
];

/// What may go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hazard {
    /// A connection ends, and both sides are told.
    Reset,
    /// It passes nothing any more, and neither side is told.
    HalfOpen,
    /// Nothing passes for some time, and then everything.
    Partition,
    /// The server believes that the channel has no subscriber.
    Unresponsive,
    PushLost,
    /// A command is executed twice.
    Twice,
    Pause,
    /// A waiting task is not polled.
    Unpolled,
    Crash,
    Shutdown,
    /// The runtime of the leader's task ends.
    Leader,
    /// A program without dlock takes the lock.
    Foreign,
    Forged,
    Slew,
    ServerDown,
    /// The server comes back without the latest writes.
    DataLost,
    QueueLost,
    Deleted,
    ClockStep,
}

pub(super) const HAZARDS: [Hazard; 19] = [
    Hazard::Reset,
    Hazard::HalfOpen,
    Hazard::Partition,
    Hazard::Unresponsive,
    Hazard::PushLost,
    Hazard::Twice,
    Hazard::Pause,
    Hazard::Unpolled,
    Hazard::Crash,
    Hazard::Shutdown,
    Hazard::Leader,
    Hazard::Foreign,
    Hazard::Forged,
    Hazard::Slew,
    Hazard::ServerDown,
    Hazard::DataLost,
    Hazard::QueueLost,
    Hazard::Deleted,
    Hazard::ClockStep,
];

#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) theme: Theme,
    pub(super) processes: usize,
    pub(super) contenders: usize,
    pub(super) latency: Latency,
    /// Grants come on a connection of their own.
    pub(super) pushes_apart: bool,
    pub(super) hazards: Vec<Hazard>,
    /// The mean time between two of them, µs.
    pub(super) hazard_every: u64,
    /// How long things go wrong, µs, before the calm.
    pub(super) storm: u64,
    /// The mean time from one lock to the next request, µs.
    pub(super) think: u64,
    /// The mean time that a body takes, µs.
    pub(super) body: u64,
    ttls: [u64; 3],
    renews: bool,
    min_holds: bool,
    max_holds: bool,
    /// One wait in this many is cancelled, or a guard dropped.
    pub(super) cancels: u32,
    /// One wait in this many has an end.
    bounded: u32,
    pub(super) downgrades: bool,
    /// For the processes of the explorer.
    pub(super) run: Run,
}

impl Plan {
    pub(super) fn draw(rng: &mut Rng, mutant: Option<Mutant>) -> Self {
        let theme = THEMES[rng.usize(0..THEMES.len())];
        let contenders = match theme {
            Theme::Exclusive => rng.usize(1..=4),
            _ => 1,
        };
        let latency = [(30, 100), (200, 300), (1_000, 2_000), (20_000, 30_000)];
        let (least, usual) = latency[rng.usize(0..latency.len())];
        let share = rng.f64();
        let mut hazards: Vec<Hazard> = HAZARDS.into_iter().filter(|_| rng.f64() < share).collect();
        if hazards.is_empty() {
            hazards.push(HAZARDS[rng.usize(0..HAZARDS.len())]);
        }
        let ttls: [u64; 3] =
            std::array::from_fn(|_| [1_000, 2_000, 3_000, 5_000, 10_000, 20_000][rng.usize(0..6)]);
        let handoffs = if rng.bool() { 16 } else { 0 };
        let run = Run {
            asks: &[Asks::Alone],
            attempts: u32::MAX,
            tick: Duration::from_millis(500),
            poll: Some(Duration::from_secs(1)),
            ttl: Duration::from_millis(ttls[0]),
            handoffs,
            renews: true,
            mutant,
            ..Run::default()
        };
        Self {
            theme,
            processes: rng.usize(2..=7),
            contenders,
            latency: Latency {
                least,
                usual,
                lost_once_in: [50, 500, 5_000][rng.usize(0..3)],
            },
            pushes_apart: rng.u8(0..4) == 0,
            hazards,
            hazard_every: [700_000, 3_000_000, 10_000_000][rng.usize(0..3)],
            storm: 60_000_000,
            think: [50_000, 500_000, 3_000_000][rng.usize(0..3)],
            body: [5_000, 300_000, 2_000_000, 8_000_000][rng.usize(0..4)],
            ttls,
            renews: rng.bool(),
            min_holds: rng.u8(0..3) == 0,
            max_holds: rng.u8(0..4) == 0,
            cancels: [3, 10, 1_000][rng.usize(0..3)],
            bounded: [3, 10, 1_000][rng.usize(0..3)],
            downgrades: rng.bool(),
            run,
        }
    }

    /// What a contender requests next, and for how long its body runs.
    pub(super) fn wish(&self, rng: &mut Rng, at: usize) -> (Wants, Order, u64) {
        let asks = self.asks(rng, at);
        let length = Duration::from_millis(self.ttls[rng.usize(0..3)]);
        let ttl = Ttl::new(length).expect("a ttl in range");
        let renews = self.renews && rng.u8(0..4) > 0;
        let mut body = exponential(rng, self.body);
        if renews && rng.u8(0..12) == 0 {
            body = rng.u64(15_000_000..40_000_000); // a long hold
        }
        let some = |rng: &mut Rng, is: bool| is && rng.u8(0..3) == 0;
        let min_hold =
            some(rng, self.min_holds).then(|| Duration::from_millis(rng.u64(500..6_000)));
        let max_hold = (some(rng, self.max_holds) && renews).then(|| length * rng.u32(1..4));
        let terms = LeaseTerms {
            ttl,
            renew: renews.then(|| length / 3),
            bounds: Bounds {
                once_per: None,
                min_hold,
                max_hold,
                max_renewals: None,
            },
            margin: Margin::DEFAULT,
        };
        let wants = match rng.u32(0..self.bounded) {
            0 if rng.bool() => Wants::Once,
            0 => Wants::For,
            _ => Wants::Forever,
        };
        (wants, Order { asks, terms }, body)
    }

    fn asks(&self, rng: &mut Rng, at: usize) -> Asks {
        const OWNERS: [&str; 3] = ["a", "b", "c"];
        let theme = match self.theme {
            Theme::Mixed => THEMES[rng.usize(0..5)],
            theme => theme,
        };
        match theme {
            Theme::Exclusive | Theme::Fair | Theme::Mixed => Asks::Alone,
            Theme::ReadWrite if rng.u8(0..3) == 0 => Asks::Write,
            Theme::ReadWrite => Asks::Read,
            Theme::Permits => Asks::Take(rng.u32(1..=2), if rng.u8(0..8) == 0 { 2 } else { 3 }),
            Theme::Owners => Asks::As(OWNERS[at % 3]),
        }
    }

    /// The longest that a lease or `min_hold` of this plan lasts, µs.
    pub(super) fn longest(&self) -> u64 {
        self.ttls.into_iter().max().unwrap_or_default().max(6_000) * 1_000
    }
}

pub(super) fn exponential(rng: &mut Rng, mean: u64) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "some µs more or less"
    )]
    let drawn = (-(1.0 - rng.f64()).ln() * mean as f64) as u64;
    drawn.min(mean * 8)
}
