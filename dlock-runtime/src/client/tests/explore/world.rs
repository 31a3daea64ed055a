//! The state of the model: a server, some processes, the connections between them, and what may yet
//! arrive.

use std::collections::VecDeque;
use std::hash::{Hash, Hasher};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use super::fingerprint::Fingerprint;
use super::host::rules;
use super::process::{Fence, Process};
use super::run::Run;
use crate::rules::Server;
use crate::rules::commands::{
    Acquire, Acquired, Cancelled, Claim, GivenBack, Keep, Polled, PushedGrant, Renewal, Renewed,
};
use crate::values::entry;
use crate::values::moment::Moment;
use crate::values::token::Token;

pub(super) const KEY: &str = "k";

/// Each process draws its tokens from this many numbers of its own.
pub(super) const TOKENS_EACH: u64 = 1 << 24;

/// The value that a program without dlock sets.
pub(super) const FOREIGN: &str = "foreign";

/// The time, as both sides see it: they agree, and the model's world moves in whole ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Clock {
    pub(super) ticks: u64,
    pub(super) tick: Duration,
}

#[derive(Clone)]
pub(super) struct World {
    pub(super) clock: Clock,
    /// The clock of each process, if it differs.
    pub(super) clocks: Vec<Clock>,
    pub(super) server: Rc<Server>,
    /// The channels that the server believes to be subscribed: process and connection.
    pub(super) channels: Vec<(usize, u32)>,
    pub(super) processes: Vec<Rc<Process>>,
    /// Commands of broken connections, which may yet be executed.
    pub(super) limbo: Vec<Command>,
    pub(super) budget: u8,
    pub(super) cancels: u8,
    /// Until when a program without dlock believes that it holds the lock.
    pub(super) foreign: Option<Moment>,
    /// The fence of the last body that began.
    pub(super) last_fence: Fence,
    /// The value of that body.
    pub(super) last_begun: Option<Arc<str>>,
    /// `min_hold`: each value, or what is kept of it, must stand until then (server time).
    pub(super) kept: Vec<(Arc<str>, u64)>,
    /// Memory was lost or a key deleted behind our back: exclusion is not promised.
    pub(super) promises_off: bool,
    /// When that was.
    pub(super) deleted: Option<Moment>,
    /// Of each process, the token number up to which nothing is promised (used by the simulator).
    pub(super) excused: Vec<u64>,
    /// What the last step did wrong; never part of a state that is kept.
    pub(super) wrong: Option<&'static str>,
}

/// A command on its way to the server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Command {
    pub(super) token: Token,
    pub(super) sent: Moment,
    pub(super) what: What,
    /// Its sender still waits for the answer.
    pub(super) heard: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum What {
    Acquire(Acquire),
    Poll(Claim),
    Release {
        claim: Claim,
        keep: Keep,
    },
    Cancel {
        claim: Claim,
        keep: Keep,
        not_after: u64,
        /// On the acquire's connection, behind it.
        behind: bool,
    },
    Renew(Renewal),
    Downgrade(Renewal),
}

/// An answer on its way back.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Reply {
    pub(super) token: Token,
    pub(super) sent: Moment,
    pub(super) answer: Answer,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Answer {
    Acquired(Acquired),
    Polled(Polled),
    Released(GivenBack),
    Cancelled(Cancelled, bool),
    Renewed(Renewed),
    Downgraded(bool),
    /// The connection is gone; no answer will come for these cancels sent behind their acquires.
    Broken(Vec<Token>),
}

/// One connection, in order both ways.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Wire {
    pub(super) out: VecDeque<Command>,
    pub(super) back: VecDeque<Reply>,
}

impl Wire {
    /// The sender no longer waits for the answer to this command.
    pub(super) fn forget(&mut self, token: Token, is: impl Fn(&What) -> bool) {
        for command in &mut self.out {
            if command.token == token && is(&command.what) {
                command.heard = false;
            }
        }
        self.back.retain(|reply| reply.token != token);
    }
}

impl Clock {
    /// µs of a server, ns of a client: far from each other and from all other numbers.
    const SERVER: u64 = 1_700_000_000_000_000;
    const CLIENT: u64 = 5_000_000_000_000_000_000;
    const SPAN: u64 = 1_000_000_000_000_000;

    pub(super) fn now(self) -> Moment {
        Moment::from_nanos(Self::CLIENT + self.ticks * self.nanos())
    }

    pub(super) fn time(self) -> u64 {
        Self::SERVER + self.ticks * self.nanos() / 1000
    }

    /// The moment at which it was that time at the server.
    pub(super) fn moment_of(time: u64) -> Moment {
        Moment::from_nanos(Self::CLIENT + (time - Self::SERVER) * 1000)
    }

    /// In how many ticks a time comes; `None` if the number is no time.
    pub(super) fn ticks_ahead(self, number: u64) -> Option<i64> {
        // Epochs of one tick follow each other by a microsecond: they count as of the tick.
        let (from, tick, slack) = if number.abs_diff(self.time()) < Self::SPAN / 10 {
            (self.time(), self.nanos() / 1000, 500)
        } else if number.abs_diff(self.now().as_nanos()) < Self::SPAN {
            (self.now().as_nanos(), self.nanos(), 0)
        } else {
            return None;
        };
        let ahead = number.saturating_sub(slack).cast_signed() - from.cast_signed();
        let tick = tick.cast_signed();
        Some(ahead.div_euclid(tick) + i64::from(ahead.rem_euclid(tick) != 0))
    }

    fn nanos(self) -> u64 {
        u64::try_from(self.tick.as_nanos()).expect("a short tick")
    }
}

impl World {
    pub(super) fn new(run: &Run) -> Self {
        let processes = run.processes.iter().enumerate();
        Self {
            clock: Clock {
                ticks: 100,
                tick: run.tick,
            },
            clocks: Vec::new(),
            server: Rc::default(),
            channels: (0..run.processes.len()).map(|at| (at, 0)).collect(),
            processes: processes
                .map(|(at, wants)| Rc::new(Process::new(at, wants, rules(run))))
                .collect(),
            limbo: Vec::new(),
            budget: run.budget,
            cancels: run.cancels,
            foreign: None,
            last_fence: (0, 0),
            last_begun: None,
            kept: Vec::new(),
            promises_off: false,
            deleted: None,
            excused: Vec::new(),
            wrong: None,
        }
    }

    pub(super) fn server(&mut self) -> &mut Server {
        Rc::make_mut(&mut self.server)
    }

    /// The clock of a process.
    pub(super) fn clock_of(&self, at: usize) -> Clock {
        self.clocks.get(at).copied().unwrap_or(self.clock)
    }

    /// Equal for all states that differ only in the date.
    pub(super) fn fingerprint(&self) -> u128 {
        let mut hasher = Fingerprint::new(self.clock);
        hasher.forget_the_past(true);
        self.server.hash(&mut hasher);
        self.kept.hash(&mut hasher);
        self.foreign.hash(&mut hasher);
        hasher.forget_the_past(false);
        self.channels.hash(&mut hasher);
        self.limbo.hash(&mut hasher);
        (self.budget, self.cancels, self.promises_off).hash(&mut hasher);
        let last_begun = self.last_begun.as_deref().and_then(token_in);
        let last_begun = last_begun.map(|(whose, _)| whose);
        self.hold_epoch().map(|_| last_begun).hash(&mut hasher);
        self.deleted.hash(&mut hasher);
        for process in &self.processes {
            process.hash(&mut hasher);
        }
        let mut fences = vec![(self.last_fence, 0)];
        fences.extend(self.hold_epoch().map(|epoch| ((epoch, 0), 1)));
        for process in &self.processes {
            process.fences(|fence| {
                let whose = fences.len();
                fences.push((fence, whose));
            });
        }
        fences.sort_unstable();
        for (_, whose) in fences {
            hasher.write_usize(whose);
        }
        hasher.value()
    }

    /// For people who read a trace.
    pub(super) fn describe(&self) -> String {
        let time = self.clock.time();
        let holds = self.clone().standing().join(" + ");
        let meta = (*self.server).clone().meta(KEY, time).unwrap_or_default();
        let queue = (*self.server).clone().waiting(KEY, time);
        let queue: Vec<_> = queue
            .iter()
            .map(|(entry, alive)| (&**entry, *alive > time))
            .collect();
        let processes: Vec<_> = self.processes.iter().map(|it| it.describe()).collect();
        format!(
            "{} | at the key: {holds} {meta} | {queue:?} | {}",
            self.clock.ticks - 100,
            processes.join(" | ")
        )
    }
}

impl Command {
    pub(super) fn claim(&self) -> &Claim {
        self.what.claim()
    }
}

impl What {
    pub(super) fn claim(&self) -> &Claim {
        match self {
            What::Acquire(acquire) => &acquire.claim,
            What::Poll(claim) | What::Release { claim, .. } | What::Cancel { claim, .. } => claim,
            What::Renew(renewal) | What::Downgrade(renewal) => &renewal.claim,
        }
    }
}

/// The token in a value that a process of the model wrote, and the process.
pub(super) fn token_in(value: &str) -> Option<(usize, Token)> {
    let name = entry::read(value)?.token;
    let number: u64 = name.strip_prefix('t')?.parse().ok()?;
    let whose = usize::try_from(number / TOKENS_EACH).ok()?;
    Some((whose, Token::of_test(number)))
}

pub(super) fn address_of(process: usize, connection: u32) -> String {
    format!("{process}.{connection}")
}

/// A grant that is on its way to a process.
pub(super) type Push = PushedGrant;
