//! `memory://`: the pure server machine behind a mutex, for development and tests.
//!
//! Every answer is ready at once and no step crosses a thread, so tokio's paused clock works. It
//! protects this process only.
//!
//! Never in this folder: a lock rule (`rules` has them), another thread.

pub(crate) mod data;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::runtime::Handle;

use super::by_machine::by_machine;
use super::clock::Clock;
use super::command_error::CommandError;
use super::offers::Offers;
use super::{
    Answer, Backend, Link, LinkCommand, LinkReply, Listener, Node, NodeBackend, WatchdogKind,
};
use crate::client::clock_watch::ClockAnswer;
use crate::extras::server_check::Answers;
use crate::extras::writes::Wrote;
use crate::link::batched::{BatchedAnswer, ReleaseCommand};
use crate::link::memory::data::Data;
use crate::rules::commands::{Acquire, Acquired, Claim, GivenBack, Keep, PushedGrant};
use crate::rules::{Publish, Reached, Server};
use crate::values::entry;
use crate::values::memory_value::MemoryValue;
use crate::values::moment::Moment;
use crate::values::report::{Notice, Scanned};

/// The address of the only listener: the pool that this server belongs to.
const ADDRESS: &str = "here";

/// A server in this process; each pool has its own.
#[derive(Debug)]
pub(crate) struct Memory(Arc<MemoryShared>);

#[derive(Debug)]
struct MemoryShared {
    server: Mutex<Server>,
    /// The data of guarded writes; only touched while `server` is locked.
    data: Mutex<Data>,
    clock: Clock,
    listener: OnceLock<Weak<dyn Listener>>,
    /// The wall clock's time in µs when `clock` began.
    began: u64,
    /// [`ADDRESS`], as waiters give it in their entries.
    address: Arc<str>,
    /// Unique in this process.
    run_id: Box<str>,
}

impl Memory {
    pub(crate) fn new() -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(1);
        let began = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Self(Arc::new(MemoryShared {
            server: Mutex::new(Server::in_process()),
            data: Mutex::default(),
            clock: Clock::pausable(),
            listener: OnceLock::new(),
            began: u64::try_from(began.as_micros()).unwrap_or(0),
            address: ADDRESS.into(),
            run_id: format!("memory{}", NUMBER.fetch_add(1, Ordering::Relaxed)).into(),
        }))
    }
}

impl MemoryShared {
    /// Runs a command, then tells the listener which waiters it granted a lock to and who was evicted,
    /// and gives hints, after the server is unlocked.
    fn run<T>(&self, command: impl FnOnce(&mut Server, u64, &mut Outbox) -> T) -> T {
        let mut outbox = Outbox::default();
        let mut server = self.server.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.clock.now();
        let answer = command(&mut server, self.time_at(now), &mut outbox);
        drop(server);
        if let Some(listener) = self.listener.get().and_then(Weak::upgrade) {
            for grant in outbox.grants {
                listener.granted(grant, Some(now));
            }
            for key in outbox.freed {
                listener.freed(&key);
            }
            if let Some(Claim { key, value, .. }) = outbox.evicted {
                listener.evicted(&key, &value, true);
            }
            for (key, entry) in outbox.taken_out {
                listener.hinted(&key, &entry);
            }
        }
        answer
    }

    fn data(&self) -> MutexGuard<'_, Data> {
        self.data.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn time_at(&self, now: Moment) -> u64 {
        self.began + now.as_nanos() / 1000
    }
}

/// What one command has to tell.
#[derive(Debug, Default)]
struct Outbox {
    grants: Vec<PushedGrant>,
    /// The keys of hints.
    freed: Vec<Arc<str>>,
    evicted: Option<Claim>,
    taken_out: Vec<(Arc<str>, Arc<str>)>,
}

impl Outbox {
    fn tell_evicted(&mut self, claim: &Claim) -> Notice {
        let holder = entry::of_holder(&claim.value);
        if holder.is_none_or(|entry| entry.address != ADDRESS) {
            return Notice::NoAddress;
        }
        self.evicted = Some(claim.clone());
        Notice::Sent
    }
}

impl Publish for Outbox {
    fn publish(&mut self, address: &str, grant: &PushedGrant) -> Reached {
        if address != ADDRESS {
            return Reached::Nobody;
        }
        self.grants.push(grant.clone());
        Reached::Somebody
    }

    fn taken_out(&mut self, _: &str, key: &Arc<str>, entry: &Arc<str>) {
        self.taken_out.push((key.clone(), entry.clone()));
    }

    fn hint(&mut self, address: &str, key: &Arc<str>) -> Reached {
        if address != ADDRESS {
            return Reached::Nobody;
        }
        self.freed.push(key.clone());
        Reached::Somebody
    }
}

impl Backend for Memory {
    fn offers(&self) -> Offers {
        Offers::Everything
    }

    fn clock(&self) -> Clock {
        self.0.clock
    }

    fn watchdog(&self) -> WatchdogKind {
        WatchdogKind::Caller
    }

    fn listen(&self, listener: Weak<dyn Listener>) {
        let _ = self.0.listener.set(listener); // called once, as `Backend::listen` promises
    }

    fn ready(&self, _key: &str, _now: Moment) -> Option<Arc<dyn Link>> {
        Some(self.0.clone())
    }

    fn connect<'a>(&'a self, _key: &'a str, _within: Duration) -> Answer<'a, Arc<dyn Link>> {
        ready(self.0.clone() as Arc<dyn Link>)
    }

    fn memory_value(&self, key: &str) -> Result<Option<MemoryValue>, CommandError> {
        let read = |_: &mut Server, time, _: &mut Outbox| self.0.data().get(key, time).cloned();
        Ok(self.0.run(read))
    }
}

impl NodeBackend for Memory {
    fn ready_node(&self, _key: &str, _now: Moment) -> Option<Arc<dyn Node>> {
        Some(self.0.clone())
    }

    fn connect_node<'a>(&'a self, _key: &'a str, _within: Duration) -> Answer<'a, Arc<dyn Node>> {
        ready(self.0.clone() as Arc<dyn Node>)
    }
}

fn ready<'a, T: Send + 'a>(answer: T) -> Answer<'a, T> {
    Box::pin(std::future::ready(Ok::<T, CommandError>(answer)))
}

impl Link for MemoryShared {
    fn server_time_at(&self, now: Moment) -> u64 {
        self.time_at(now)
    }

    fn runtime(&self) -> Option<&Handle> {
        None
    }

    fn address(&self) -> Option<&Arc<str>> {
        Some(&self.address)
    }

    fn acquire<'a>(
        &'a self,
        command: &'a Acquire,
        _within: Duration,
    ) -> BatchedAnswer<'a, &'a Acquire, Acquired> {
        let answer = self.run(|server, time, outbox| server.acquire(command, time, outbox));
        BatchedAnswer::Boxed(ready(answer))
    }

    fn release<'a>(
        &'a self,
        claim: &'a Claim,
        keep: Keep,
        _within: Duration,
    ) -> BatchedAnswer<'a, ReleaseCommand<'a>, GivenBack> {
        let run = |server: &mut Server, time, outbox: &mut Outbox| {
            server.release(claim, keep, time, outbox)
        };
        BatchedAnswer::Boxed(ready(self.run(run)))
    }

    fn call<'a>(&'a self, command: LinkCommand<'a>, _within: Duration) -> Answer<'a, LinkReply> {
        ready(self.run(|server, time, outbox| self.execute(command, server, (time, outbox))))
    }
}

impl MemoryShared {
    fn execute(
        &self,
        command: LinkCommand<'_>,
        server: &mut Server,
        (time, outbox): (u64, &mut Outbox),
    ) -> LinkReply {
        match command {
            LinkCommand::Write(claim, _) if !server.holds(claim, time) => Wrote::NotOurs.into(),
            LinkCommand::Write(_, writes) => {
                let written = self.data().write(writes, time);
                written.map_or_else(Wrote::Unfit, |()| Wrote::All).into()
            }
            LinkCommand::Scan { sought, prefix, .. } => Scanned {
                cursor: String::new(),
                keys: server.keys(sought, prefix, time),
            }
            .into(),
            LinkCommand::TellEvicted(claim) => outbox.tell_evicted(claim).into(),
            // Of a check, there is nothing to say.
            command => by_machine(command, server, time, outbox)
                .unwrap_or_else(|| Vec::<Answers>::new().into()),
        }
    }
}

/// A command is executed when its future is made, so dropping that changes nothing.
impl Node for MemoryShared {
    fn remind(&self) {}

    fn run_id(&self) -> &str {
        &self.run_id
    }

    fn votes_from(&self) -> Moment {
        Moment::default() // it can't have held a lock before this process began
    }

    fn clock_answer(&self) -> Option<ClockAnswer> {
        None // its clock is that of this process, which is not set
    }

    fn hint_address(&self) -> Option<&Arc<str>> {
        Some(&self.address)
    }
}
