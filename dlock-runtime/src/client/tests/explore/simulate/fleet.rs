//! A fleet of processes, their server and the network between them: events happen one after the
//! other, in the order of their times, and everything is drawn from one seed.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::rc::Rc;

use fastrand::Rng;

use super::check::Check;
use super::clocks::Drifting;
use super::network::Link;
use super::plan::Plan;
use super::process::{self, Done, Event, Host};
use super::server::{BEGAN, Site};
use super::workload::{Deed, Script};
use crate::client::tests::explore::host::rules;
use crate::client::tests::explore::mutants::Mutant;
use crate::client::tests::explore::process::Process;
use crate::client::tests::explore::run::Wants;
use crate::client::tests::explore::seen::Seen;
use crate::client::tests::explore::world::{Answer, Command, Push, World};
use crate::values::moment::Moment;
use crate::values::token::Token;

/// A very busy fleet comes to its calm after this many steps.
const STORM_AT_MOST: u64 = 20_000;

/// An event at some time.
#[derive(Clone, Debug)]
pub(super) enum Next {
    /// To a process; with a number, only if it is the latest.
    Process(usize, Event),
    Wake(usize, u64),
    Deed(usize, usize, u64, Deed),
    Hello {
        link: usize,
        sent: Moment,
    },
    Greeted {
        link: usize,
        time: u64,
        sent: Moment,
    },
    Request {
        link: usize,
        command: Command,
    },
    Reply {
        link: usize,
        token: Token,
        sent: Moment,
        answer: Answer,
    },
    Push {
        link: usize,
        grant: Push,
    },
    /// A side learns that a connection has ended.
    ClientNotices(usize),
    ServerNotices(usize),
    Listens(usize),
    /// The waiters of a process are polled again.
    Polled(usize),
    /// A command is executed (again), and no sender waits for its answer.
    Late(Command),
    ForeignReleases,
    Forged(usize),
    Hazard,
    Snapshot,
    ServerUp {
        loses: bool,
    },
    Audit,
    Exits(usize),
    Calm,
}

/// One process, and its simulated user.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) host: Host,
    pub(super) scripts: Vec<Script>,
    /// Its connections: for commands, and the watchdog's.
    pub(super) links: [usize; 2],
    pub(super) paused_until: u64,
    /// Its number in the plan; the process that replaces it has the same.
    pub(super) place: usize,
    pub(super) wake: u64,
    /// It ends when nothing of it is left.
    pub(super) leaves: bool,
    /// It has ended that way.
    pub(super) left: bool,
    pub(super) died: Option<u64>,
}

pub(super) struct Fleet {
    pub(super) plan: Plan,
    pub(super) rng: Rng,
    /// True time, µs.
    pub(super) now: u64,
    pub(super) next: BTreeMap<(u64, u64), Next>,
    order: u64,
    /// The number of the current event.
    happening: u64,
    pub(super) world: World,
    pub(super) seen: Seen,
    pub(super) members: Vec<Member>,
    pub(super) links: Vec<Link>,
    pub(super) site: Site,
    pub(super) check: Check,
    /// No new requests, and nothing goes wrong any more.
    pub(super) calm: Option<u64>,
    pub(super) wrong: Option<&'static str>,
    pub(super) steps: u64,
    told: VecDeque<String>,
    /// How many of the last steps are told.
    tells: usize,
    pub(super) count: Count,
}

/// What happened in a run; a run in which nothing happened proves nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Count {
    pub(super) bodies: u64,
    pub(super) commands: u64,
    pub(super) hazards: u64,
    pub(super) micros: u64,
}

/// The outcome of a seed.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) wrong: Option<&'static str>,
    pub(super) steps: u64,
    pub(super) count: Count,
    pub(super) seen: Seen,
    pub(super) told: String,
}

impl Fleet {
    pub(super) fn new(seed: u64, mutant: Option<Mutant>, tells: usize) -> Self {
        let mut rng = Rng::with_seed(seed);
        let plan = Plan::draw(&mut rng, mutant);
        let mut world = World::new(&plan.run);
        world.processes.clear();
        world.channels.clear();
        let site = Site::new(&mut rng);
        let check = Check::default();
        let mut fleet = Self {
            rng,
            now: 0,
            next: BTreeMap::new(),
            order: 0,
            happening: 0,
            world,
            seen: Seen::default(),
            members: Vec::new(),
            links: Vec::new(),
            site,
            check,
            calm: None,
            wrong: None,
            steps: 0,
            told: VecDeque::new(),
            tells,
            count: Count::default(),
            plan,
        };
        for place in 0..fleet.plan.processes {
            fleet.start(place);
        }
        fleet.weather_begins();
        fleet.at(fleet.plan.storm, Next::Calm);
        fleet.at(500_000, Next::Audit);
        fleet
    }

    /// Runs the seed's storm and the calm after it, or until something is wrong.
    pub(super) fn live(mut self, steps: u64) -> Outcome {
        while self.wrong.is_none() && self.steps < steps {
            let Some(((at, order), next)) = self.next.pop_first() else {
                break;
            };
            (self.now, self.happening) = (at, order);
            self.steps += 1;
            if self.tells > 0 {
                self.tell(&next);
            }
            self.happens(next);
            self.judge();
            if self.calm.is_none() && self.steps > STORM_AT_MOST {
                self.calms();
            }
            if self.calm.is_some() && self.is_over() {
                break;
            }
        }
        self.count.micros = self.now;
        let mut told = String::new();
        if self.tells > 0 {
            let _ = writeln!(told, "{:#?}", self.plan);
            for line in &self.told {
                let _ = writeln!(told, "{line}");
            }
            let _ = writeln!(told, "{}", self.world.describe().replace(" | ", "\n  "));
        }
        Outcome {
            wrong: self.wrong,
            steps: self.steps,
            count: self.count,
            seen: self.seen,
            told,
        }
    }

    pub(super) fn at(&mut self, time: u64, next: Next) {
        self.order += 1;
        self.next.insert((time, self.order), next);
    }

    /// Postpones the current event, ahead of the events that follow it at that time.
    pub(super) fn later(&mut self, time: u64, next: Next) {
        self.next.insert((time, self.happening), next);
    }

    pub(super) fn within(&mut self, most: u64, next: Next) {
        let time = self.now + self.rng.u64(0..=most);
        self.at(time, next);
    }

    fn happens(&mut self, next: Next) {
        if let Some(until) = self.delayed(&next) {
            return self.later(until, next);
        }
        match next {
            Next::Process(at, event) => self.process(at, event),
            Next::Wake(at, number) if self.members[at].wake == number => self.settle(at),
            Next::Deed(at, who, number, deed) => self.deed(at, who, number, deed),
            Next::Hello { link, sent } => self.hello(link, sent),
            Next::Greeted { link, time, sent } => {
                if self.links[link].client_gone.is_none() {
                    let now = self.now;
                    self.members[self.links[link].at]
                        .host
                        .greeted(time, sent, now);
                }
            }
            Next::Request { link, command } => self.request(link, command),
            Next::Reply {
                link,
                token,
                sent,
                answer,
            } => {
                let Link { at, watchdog, .. } = self.links[link];
                let reply = crate::client::tests::explore::world::Reply {
                    token,
                    sent,
                    answer,
                };
                if self.links[link].client_gone.is_none() && !self.links[link].dead {
                    self.process(at, Event::Answered { watchdog, reply });
                }
            }
            Next::Push { link, grant } => {
                if self.links[link].client_gone.is_none() && !self.links[link].dead {
                    self.process(self.links[link].at, Event::Pushed(grant));
                }
            }
            Next::ClientNotices(link) => {
                if self.links[link].client_gone.is_none() {
                    let watchdog = self.links[link].watchdog;
                    self.reconnect(self.links[link].at, watchdog);
                }
            }
            Next::ServerNotices(link) => self.server_notices(link),
            Next::Listens(link) => self.listens(link),
            Next::Polled(at) => self.polled(at),
            Next::Late(command) => {
                if self.site.is_up {
                    self.execute(&command, false);
                }
            }
            Next::ForeignReleases => self.foreign_releases(),
            Next::Forged(at) => self.forged(at),
            Next::Hazard => self.hazard(),
            Next::Snapshot => self.snapshot(),
            Next::ServerUp { loses } => self.server_up(loses),
            Next::Audit => self.audit(),
            Next::Exits(at) => self.exits(at),
            Next::Calm if self.calm.is_none() => self.calms(),
            // Superseded; already calm.
            Next::Wake(..) | Next::Calm => {}
        }
    }

    /// An event for a stalled process waits for it.
    fn delayed(&self, next: &Next) -> Option<u64> {
        let at = match next {
            Next::Process(at, _)
            | Next::Polled(at)
            | Next::Wake(at, _)
            | Next::Deed(at, ..)
            | Next::Exits(at) => *at,
            Next::Greeted { link, .. }
            | Next::Reply { link, .. }
            | Next::Push { link, .. }
            | Next::ClientNotices(link) => self.links[*link].at,
            _ => return None,
        };
        let until = self.members[at].paused_until;
        (until > self.now).then_some(until)
    }

    /// Tells a process an event, and lets it do what follows from it.
    pub(super) fn process(&mut self, at: usize, event: Event) {
        if !self.world.processes[at].alive {
            return;
        }
        self.world.clock = self.site.clock(self.now);
        let process = &mut self.world.processes[at];
        let (run, now) = (&self.plan.run, self.now);
        let done = self.members[at]
            .host
            .tell(process, run, &mut self.seen, now, event);
        self.done(at, done);
        self.settle(at);
    }

    /// Runs a process until it has nothing more to do now.
    pub(super) fn settle(&mut self, at: usize) {
        for _ in 0..1_000 {
            if !self.world.processes[at].alive {
                return;
            }
            let Member { host, scripts, .. } = &mut self.members[at];
            let now = self.now;
            let is_polled = |who: usize| scripts[who].unpolled_until <= now;
            let process = &mut self.world.processes[at];
            let with = (now, &mut self.rng);
            match host.acts(process, &self.plan.run, &mut self.seen, with, is_polled) {
                Ok(done) => self.done(at, done),
                Err(when) => return self.rests(at, when),
            }
        }
        self.wrong = Some("L3 a process that never rests");
    }

    fn rests(&mut self, at: usize, when: u64) {
        self.follow(at);
        let polled = self.members[at].scripts.iter().map(|it| it.unpolled_until);
        let polled = polled.filter(|until| *until > self.now).min();
        let when = when.min(polled.unwrap_or(u64::MAX));
        self.members[at].wake += 1;
        if when != u64::MAX {
            let number = self.members[at].wake;
            self.at(when.max(self.now + 1), Next::Wake(at, number));
        }
    }

    pub(super) fn done(&mut self, at: usize, done: Done) {
        if self.tells > 0
            && let Some(step) = done.step
        {
            self.say(format!("            {step:?}"));
        }
        if let Some(begun) = done.begun {
            self.count.bodies += 1;
            self.world.began(&begun);
            self.wrong = self.wrong.or(self.world.wrong.take());
            self.begins(at, &begun);
        }
        for (watchdog, command) in done.sent {
            self.excuses_old_time(at, &command);
            let link = self.members[at].links[usize::from(watchdog)];
            let takes = self.plan.latency.draw(&mut self.rng);
            let arrives = self.links[link].request(self.now, takes);
            self.at(arrives, Next::Request { link, command });
        }
        if let Some(watchdog) = done.reconnects {
            self.reconnect(at, watchdog);
        }
    }

    /// A new process, with its connections.
    pub(super) fn start(&mut self, place: usize) {
        let at = self.members.len();
        let contenders = vec![Wants::Forever; self.plan.contenders];
        self.world.processes.push(Rc::new(Process::new(
            at,
            &contenders,
            rules(&self.plan.run),
        )));
        let ppm = self.rng.i64(-4_000..4_000);
        let clock = Drifting::new(self.now, BEGAN, ppm);
        self.world.clocks.push(clock.clock(self.now));
        self.world.excused.push(0);
        self.members.push(Member {
            host: Host::new(clock),
            scripts: vec![Script::default(); contenders.len()],
            links: [0, 0],
            paused_until: 0,
            place,
            wake: 0,
            leaves: false,
            left: false,
            died: None,
        });
        for watchdog in [false, true] {
            self.connect(at, watchdog);
        }
        for who in 0..contenders.len() {
            self.thinks(at, who);
        }
    }

    fn tell(&mut self, next: &Next) {
        let time = (self.now / 1_000, self.now % 1_000);
        let text = match next {
            Next::Audit | Next::Snapshot | Next::Exits(_) => return,
            Next::Wake(at, _) => format!("wake {at}"),
            other => format!("{other:?}"),
        };
        self.say(format!(
            "{:>8}.{:03} ms  #{} {text}",
            time.0, time.1, self.steps
        ));
    }

    pub(super) fn say(&mut self, line: String) {
        if self.tells > 0 {
            if self.told.len() == self.tells {
                self.told.pop_front();
            }
            self.told.push_back(line);
        }
    }

    /// Whether a process does nothing and has nothing.
    pub(super) fn is_at_rest(&self, at: usize) -> bool {
        let process = &self.world.processes[at];
        !process.alive || process.is_at_rest()
    }

    pub(super) fn phase_of(
        &self,
        at: usize,
        who: usize,
    ) -> &crate::client::tests::explore::process::Phase {
        process::phase(&self.world.processes[at], who)
    }
}
