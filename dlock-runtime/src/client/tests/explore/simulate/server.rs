//! The simulated server: its clock, its connections, what it executes, and what it may lose.

use std::rc::Rc;

use fastrand::Rng;

use super::check::Before;
use super::clocks::Drifting;
use super::fleet::{Fleet, Next};
use super::network::OnItsWay;
use crate::client::tests::explore::world::{
    Answer, Clock, Command, FOREIGN, KEY, TOKENS_EACH, What,
};
use crate::rules::Server;
use crate::values::moment::Moment;

/// A `not_after` is at most this much later than the sending of its acquire, µs, unless the
/// server's clock was set: the timeout, and the difference of two clocks.
const OLD_BY_AT_MOST: u64 = 700_000;

/// Where its clock begins, so that it can be stepped back.
pub(super) const BEGAN: u64 = 1_000_000_000;

#[derive(Debug)]
pub(super) struct Site {
    pub(super) clock: Drifting,
    pub(super) is_up: bool,
    /// What a replica has.
    copy: Rc<Server>,
    /// Set, not only slewed.
    was_set: bool,
    /// From now on fences rise by the clock alone, which then must not be set back.
    lost_its_counter: bool,
}

impl Site {
    pub(super) fn new(rng: &mut Rng) -> Self {
        Self {
            clock: Drifting::new(0, BEGAN, rng.i64(-4_000..4_000)),
            is_up: true,
            copy: Rc::default(),
            was_set: false,
            lost_its_counter: false,
        }
    }

    pub(super) fn clock(&self, now: u64) -> Clock {
        self.clock.clock(now)
    }
}

/// For how long a command stays in a buffer after its connection has ended.
pub(super) fn late(rng: &mut Rng) -> u64 {
    let most = [50_000, 500_000, 5_000_000][rng.usize(0..3)];
    rng.u64(0..most)
}

impl Fleet {
    pub(super) fn hello(&mut self, link: usize, sent: Moment) {
        if self.links[link].client_gone.is_some() || self.links[link].dead {
            return;
        }
        if !self.site.is_up {
            self.links[link].server_gone = true;
            let after = self.plan.latency.draw(&mut self.rng) + self.rng.u64(20_000..120_000);
            return self.at(self.now + after, Next::ClientNotices(link));
        }
        if !self.links[link].watchdog {
            self.listens(link);
            let time = self.site.clock(self.now).time();
            let takes = self.plan.latency.draw(&mut self.rng);
            let at = self.links[link].reply(self.now, takes);
            self.at(at, Next::Greeted { link, time, sent });
        }
    }

    /// The server learns that this connection is subscribed to its channel.
    pub(super) fn listens(&mut self, link: usize) {
        let it = &self.links[link];
        let channel = (it.at, it.number);
        let known = self.world.channels.contains(&channel);
        if self.site.is_up && !it.server_gone && !it.watchdog && !known {
            self.world.channels.push(channel);
        }
    }

    pub(super) fn server_notices(&mut self, link: usize) {
        let it = &mut self.links[link];
        it.server_gone = true;
        let channel = (it.at, it.number);
        if !it.watchdog {
            self.world.channels.retain(|it| *it != channel);
        }
    }

    pub(super) fn request(&mut self, link: usize, command: Command) {
        let it = &self.links[link];
        if !self.site.is_up || it.server_gone && it.client_gone.is_none() {
            return;
        }
        match it.client_gone {
            Some(OnItsWay::Lost) => return,
            Some(OnItsWay::Executed { from }) if from > self.now => {
                return self.at(from, Next::Late(command));
            }
            Some(OnItsWay::Executed { .. }) => {
                self.execute(&command, false);
                return;
            }
            None if it.dead => {
                // It is in a buffer somewhere, and may still arrive.
                if self.rng.bool() {
                    let late = late(&mut self.rng);
                    self.at(self.now + late, Next::Late(command));
                }
                return;
            }
            None if it.blocked_until > self.now => {
                let at = it.blocked_until;
                return self.later(at, Next::Request { link, command });
            }
            None => {}
        }
        self.twice(&command);
        let (token, sent) = (command.token, command.sent);
        if let Some(answer) = self.execute(&command, true) {
            let takes = self.plan.latency.draw(&mut self.rng);
            let at = self.links[link].reply(self.now, takes);
            self.at(
                at,
                Next::Reply {
                    link,
                    token,
                    sent,
                    answer,
                },
            );
        }
    }

    /// The shipped machine executes a command, and its pushes are on their way.
    pub(super) fn execute(&mut self, command: &Command, heard: bool) -> Option<Answer> {
        self.count.commands += 1;
        self.world.clock = self.site.clock(self.now);
        let before = Before::of(&mut self.world);
        let mut command = command.clone();
        command.heard = heard;
        let told: Vec<usize> = self
            .world
            .processes
            .iter()
            .map(|it| it.pushes.len())
            .collect();
        let (answer, wrong) = self
            .world
            .execute(&self.plan.run, command.clone(), &mut self.seen);
        let dead = self
            .check
            .head_is_dead(&mut self.world, &command, answer.as_ref());
        self.wrong = self.wrong.or(dead);
        self.wrong = self.wrong.or(wrong);
        self.check.executed(&before, &mut self.world, self.now);
        for (at, told) in told.into_iter().enumerate() {
            for index in told..self.world.processes[at].pushes.len() {
                let grant = self.world.processes[at].pushes[index].clone();
                self.publish(at, grant);
            }
        }
        answer
    }

    fn publish(&mut self, at: usize, grant: crate::rules::commands::PushedGrant) {
        let link = self.members[at].links[0];
        let takes = self.plan.latency.draw(&mut self.rng);
        let (now, apart) = (self.now, self.plan.pushes_apart);
        let arrives = self.links[link].push(now, takes, apart);
        self.at(arrives, Next::Push { link, grant });
    }

    pub(super) fn snapshot(&mut self) {
        self.site.copy = self.world.server.clone();
        if self.calm.is_none() {
            let lag = [50_000, 500_000, 2_000_000][self.rng.usize(0..3)];
            self.at(self.now + lag, Next::Snapshot);
        }
    }

    /// All connections end with it.
    pub(super) fn server_down(&mut self, lasts: u64, loses: bool) {
        if !self.site.is_up {
            return;
        }
        self.site.is_up = false;
        self.world.channels.clear();
        for link in 0..self.links.len() {
            if self.links[link].client_gone.is_none() {
                self.links[link].server_gone = true;
                self.within(50_000, Next::ClientNotices(link));
            }
        }
        self.at(self.now + lasts, Next::ServerUp { loses });
    }

    pub(super) fn server_up(&mut self, loses: bool) {
        self.site.is_up = true;
        if loses {
            let empty = self.rng.bool();
            self.world.server = if empty {
                Rc::default()
            } else {
                self.site.copy.clone()
            };
            let by = self.rng.i64(-20_000..20_000);
            self.clock_steps(by);
            self.counter_is_lost();
            self.check.restored();
        }
    }

    /// After a loss of the counter, fences rise by the clock alone, if it is not behind the last
    /// epoch.
    pub(super) fn counter_is_lost(&mut self) {
        self.site.lost_its_counter = true;
        let time = self.site.clock(self.now).time();
        let last = self.world.last_fence.0;
        // A claim that joins an owner's hold on a replica has the epoch of that hold.
        let is_older = self.world.hold_epoch().is_some_and(|epoch| epoch < last);
        if time <= last || is_older {
            self.world.last_fence = (0, 0);
        }
    }

    /// Nothing is promised for the tokens that exist now: data was lost, or a clock was set.
    pub(super) fn breaks_promises(&mut self) {
        for (at, process) in self.world.processes.iter().enumerate() {
            let numbers = at as u64 * TOKENS_EACH;
            self.world.excused[at] = numbers + u64::from(process.used);
        }
        self.world.kept.clear();
        self.world.foreign = None;
        self.check.promises_broken(self.now);
    }

    pub(super) fn clock_steps(&mut self, by: i64) {
        self.site.clock.step(self.now, by);
        self.site.was_set = true;
        if self.site.lost_its_counter {
            self.counter_is_lost();
        }
        self.breaks_promises();
    }

    /// A process that has heard nothing from the server since its clock was set back sends a
    /// `not_after` that is too late. Then a clean-up ends before its acquire is executed, and what
    /// that creates stays until it lapses. Nothing is promised for such a token.
    pub(super) fn excuses_old_time(&mut self, at: usize, command: &Command) {
        let What::Acquire(acquire) = &command.what else {
            return;
        };
        let latest = self.site.clock(self.now).time() + OLD_BY_AT_MOST;
        if self.site.was_set && acquire.not_after > latest {
            let numbers = at as u64 * TOKENS_EACH;
            let used = u64::from(self.world.processes[at].used);
            self.world.excused[at] = numbers + used;
        }
    }

    pub(super) fn foreign_sets(&mut self) {
        let clock = self.site.clock(self.now);
        self.world.clock = clock;
        let (ttl, time) = (self.plan.run.ttl, clock.time());
        if self.site.is_up && self.world.server().read(KEY, time).is_none() {
            let expires = time + u64::try_from(ttl.as_micros()).expect("short");
            self.world.server().put(KEY, FOREIGN, Some(expires));
            self.world.foreign = Some(clock.now().plus(ttl));
            self.within(expires - time, Next::ForeignReleases);
        }
    }

    /// By compare-and-delete.
    pub(super) fn foreign_releases(&mut self) {
        let time = self.site.clock(self.now).time();
        if self.site.is_up && self.world.server().read(KEY, time).as_deref() == Some(FOREIGN) {
            self.world.server().remove(KEY);
        }
        self.world.foreign = None;
    }
}
