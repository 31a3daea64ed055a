//! What goes wrong, and when; and the calm at the end, in which everything has to come to rest.

use std::rc::Rc;

use super::fleet::{Fleet, Next};
use super::plan::{Hazard, exponential};
use super::process::Event;
use super::server::late;
use crate::client::tests::explore::world::KEY;

impl Fleet {
    pub(super) fn weather_begins(&mut self) {
        self.next_hazard();
        self.at(10_000, Next::Snapshot);
    }

    fn next_hazard(&mut self) {
        let pause = exponential(&mut self.rng, self.plan.hazard_every);
        self.at(self.now + pause, Next::Hazard);
    }

    pub(super) fn hazard(&mut self) {
        if self.calm.is_some() {
            return;
        }
        self.next_hazard();
        let living: Vec<usize> = (0..self.members.len())
            .filter(|at| self.world.processes[*at].alive)
            .collect();
        let hazard = self.plan.hazards[self.rng.usize(0..self.plan.hazards.len())];
        let Some(at) = self.rng.choice(living) else {
            return;
        };
        self.count.hazards += 1;
        self.check.disturbed(self.now);
        self.say(format!("            {hazard:?} at {at}"));
        self.strikes(hazard, at);
    }

    fn strikes(&mut self, hazard: Hazard, at: usize) {
        let link = self.members[at].links[usize::from(self.rng.u8(0..3) == 0)];
        let short = self.rng.u64(10_000..6_000_000);
        match hazard {
            Hazard::Reset => {
                self.links[link].dead = true;
                self.within(50_000, Next::ClientNotices(link));
                self.within(50_000, Next::ServerNotices(link));
            }
            Hazard::HalfOpen => {
                self.links[link].dead = true;
                self.links[link].told = true;
                self.within(15_000_000, Next::ServerNotices(link));
                // The kernel's keep-alive finds out at the latest.
                self.at(self.now + 15_000_000, Next::ClientNotices(link));
            }
            Hazard::Partition => {
                for link in self.members[at].links {
                    let it = &mut self.links[link];
                    it.blocked_until = it.blocked_until.max(self.now + short);
                }
            }
            Hazard::Unresponsive => {
                let link = self.members[at].links[0];
                let channel = (at, self.links[link].number);
                self.world.channels.retain(|it| *it != channel);
                self.within(1_000_000, Next::Listens(link));
            }
            Hazard::PushLost => {
                let process = Rc::make_mut(&mut self.world.processes[at]);
                process.pushes.pop();
            }
            Hazard::Twice => self.check.twice_next(),
            Hazard::Pause => {
                let until = &mut self.members[at].paused_until;
                *until = (*until).max(self.now + short);
                self.at(self.now + short + 1, Next::Polled(at));
            }
            Hazard::Unpolled => {
                let who = self.rng.usize(0..self.members[at].scripts.len());
                self.members[at].scripts[who].unpolled_until = self.now + short;
                self.at(self.now + short + 1, Next::Polled(at));
            }
            Hazard::Crash => self.crashes(at),
            Hazard::Shutdown if self.members[at].leaves => {}
            Hazard::Shutdown => {
                self.members[at].leaves = true;
                self.sends_away(at);
                self.at(self.now + 5_000, Next::Exits(at));
            }
            Hazard::Leader => {
                if self.world.processes[at].is_driven() && !self.world.processes[at].is_cut() {
                    self.at(self.now, Next::Process(at, Event::LeaderLost));
                }
            }
            Hazard::Foreign => self.foreign_sets(),
            Hazard::Forged => self.forges(),
            Hazard::Slew => {
                let ppm = self.rng.i64(-4_000..4_000);
                if self.rng.bool() {
                    self.members[at].host.clock.slew(self.now, ppm);
                    let who = at;
                    self.members[who].wake += 1;
                    let number = self.members[who].wake;
                    self.at(self.now, Next::Wake(who, number));
                } else {
                    self.site.clock.slew(self.now, ppm);
                }
            }
            Hazard::ServerDown => self.server_down(short / 2, false),
            Hazard::DataLost => self.server_down(short / 2, true),
            Hazard::QueueLost => self.world.server().lose_queue(KEY),
            Hazard::Deleted => {
                self.notes_holders();
                if self.rng.bool() {
                    self.world.server().remove(KEY);
                } else {
                    *self.world.server() = crate::rules::Server::default();
                    self.counter_is_lost();
                }
                self.breaks_promises();
            }
            Hazard::ClockStep => {
                let by = self.rng.i64(-8_000_000..8_000_000);
                self.clock_steps(by);
            }
        }
    }

    /// A command on its way is executed twice: an acquire immediately, any other at any time.
    pub(super) fn twice(&mut self, command: &crate::client::tests::explore::world::Command) {
        use crate::client::tests::explore::world::What;
        if !self.check.takes_twice() {
            return;
        }
        if matches!(command.what, What::Acquire(_)) || self.rng.bool() {
            self.execute(command, false);
        } else {
            let late = late(&mut self.rng);
            self.at(self.now + late, Next::Late(command.clone()));
        }
    }

    /// What an attacker without the fleet's secret may publish: that an entry was granted, or
    /// anything.
    fn forges(&mut self) {
        for _ in 0..self.rng.u8(1..30) {
            let at = self.rng.usize(0..self.members.len());
            self.within(1_000_000, Next::Forged(at));
        }
    }

    pub(super) fn forged(&mut self, at: usize) {
        let time = self.site.clock(self.now).time();
        let waiting = self.world.server().waiting(KEY, time);
        let place = self.rng.choice(waiting).map(|(entry, _)| entry);
        let value = place.map(|entry| entry.to_string());
        self.process(
            at,
            Event::Hinted(value.unwrap_or_else(|| "1|t1".to_owned())),
        );
    }

    fn crashes(&mut self, at: usize) {
        self.ends(at);
        let place = self.members[at].place;
        if self.rng.u8(0..4) > 0 {
            self.start(place);
        }
    }

    fn ends(&mut self, at: usize) {
        self.members[at].died = Some(self.now);
        for link in self.members[at].links {
            self.close(link);
        }
        let mut dead = self.world.processes[at].dead();
        dead.used = self.world.processes[at].used;
        self.world.processes[at] = Rc::new(dead);
    }

    /// A pool that was shut down is dropped when nothing of it is left, or when that takes too
    /// long.
    pub(super) fn exits(&mut self, at: usize) {
        if !self.world.processes[at].alive {
            return;
        }
        if self.is_at_rest(at) {
            self.members[at].left = true;
            self.ends(at);
            let place = self.members[at].place;
            if self.calm.is_none() {
                self.start(place);
            }
        } else {
            self.at(self.now + 20_000, Next::Exits(at));
        }
    }

    /// Nothing goes wrong any more: broken things are repaired (stalled or blocked ones when their
    /// time is over), and users release their locks.
    pub(super) fn calms(&mut self) {
        self.calm = Some(self.now);
        self.check.calms(self.now);
        if !self.site.is_up {
            self.server_up(false);
        }
        for link in 0..self.links.len() {
            let it = &mut self.links[link];
            if it.dead && it.client_gone.is_none() {
                self.within(100_000, Next::ClientNotices(link));
            }
            let it_is_used = self.links[link].client_gone.is_none();
            if it_is_used {
                self.within(100_000, Next::Listens(link));
            }
        }
        for at in 0..self.members.len() {
            for script in &mut self.members[at].scripts {
                script.unpolled_until = 0;
            }
            if self.world.processes[at].alive {
                self.hurries_home(at);
                self.within(1_000_000, Next::Polled(at));
                self.members[at].wake += 1;
                let number = self.members[at].wake;
                self.at(self.now, Next::Wake(at, number));
            }
        }
    }
}
