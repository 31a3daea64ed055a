//! The connections of a fleet: each process has one for its callers and one for its watchdog, makes
//! another when one has ended, and the server learns of the end at a time of its own.

use std::rc::Rc;

use super::fleet::{Fleet, Next};
use super::network::{Link, OnItsWay};
use super::process::Event;
use super::server::late;

impl Fleet {
    pub(super) fn connect(&mut self, at: usize, watchdog: bool) {
        let number = self.world.processes[at].connection;
        let mut link = Link::new(at, watchdog, number);
        let before = self
            .links
            .get(self.members[at].links[usize::from(watchdog)]);
        link.blocked_until = before
            .filter(|it| it.at == at)
            .map_or(0, |it| it.blocked_until);
        let takes = 3 * self.plan.latency.draw(&mut self.rng);
        let arrives = link.request(self.now, takes);
        let sent = self.members[at].host.clock.clock(self.now).now();
        self.members[at].links[usize::from(watchdog)] = self.links.len();
        self.at(
            arrives,
            Next::Hello {
                link: self.links.len(),
                sent,
            },
        );
        self.links.push(link);
    }

    /// A process replaces a connection that has ended, or that it takes for dead.
    pub(super) fn reconnect(&mut self, at: usize, watchdog: bool) {
        let link = self.members[at].links[usize::from(watchdog)];
        self.close(link);
        let process = Rc::make_mut(&mut self.world.processes[at]);
        if !process.alive {
            return;
        }
        let run = &self.plan.run;
        let event = if watchdog {
            Event::WatchdogCut
        } else {
            Event::Cut
        };
        let done = self.members[at].host.tell(
            &mut self.world.processes[at],
            run,
            &mut self.seen,
            self.now,
            event,
        );
        self.connect(at, watchdog);
        self.done(at, done);
        self.settle(at);
    }

    /// The client's end of it is gone; the server may learn of it late.
    pub(super) fn close(&mut self, link: usize) {
        let late = late(&mut self.rng);
        let from = self.links[link].blocked_until.max(self.now) + late;
        let way = match self.rng.u8(0..3) {
            0 => OnItsWay::Lost,
            1 => OnItsWay::Executed { from: self.now },
            _ => OnItsWay::Executed { from },
        };
        let it = &mut self.links[link];
        it.client_gone.get_or_insert(way);
        if !it.server_gone && !it.told {
            it.told = true;
            let after = if self.rng.bool() { 1_000 } else { 10_000_000 };
            self.within(after, Next::ServerNotices(link));
        }
    }
}
