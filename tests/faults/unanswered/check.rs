//! Carries out the rows of a table: each of its kinds and faults is a case.

use std::fmt;
use std::future::pending;
use std::thread;
use std::time::{Duration, Instant};

use dlock_harness::{Action, Matcher, RedisServer, all_cases, until, wait};
use dlock_runtime::{LockError, LockGuard, LockPool, LockRequest, Released};
use futures_util::future::{self, Aborted, abortable, join_all};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::oneshot;
use tokio::task::{AbortHandle, JoinHandle, yield_now};

use super::column::{Column, Item};
use super::row::{Before, Call, Caller, Ends, Frame, Row, Step};
use super::site::{Met, Record, Site};
use crate::lab::{CAP, SLACK, is_held};

/// Everything that the column has of this table, or one case.
pub(super) async fn all(column: Column, table: &[Row]) {
    let site = Site::start(column).await;
    let is_one = !column.is_one_server() && !all_cases();
    let mut cases = 0;
    for row in table.iter().filter(|row| column.has(row)) {
        let pool = site.pool(row.command_timeout).await;
        for case in Case::of(&site, &pool, row, cases) {
            println!("{case:?}");
            case.check().await;
            cases += 1;
            if is_one {
                return;
            }
        }
    }
    assert!(cases > 0, "{column:?} has none of them");
}

struct Case<'a> {
    site: &'a Site,
    pool: &'a LockPool,
    row: &'a Row,
    item: Item,
    fault: Action,
    /// Which of the requests that the call consists of.
    request: usize,
    from: Caller,
}

impl fmt::Debug for Case<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (column, row, fault) = (self.site.column, self.row, self.fault);
        let (kind, request) = (self.item.kind, self.request);
        write!(
            f,
            "{column:?}, {kind}, {fault:?} at request {request}, {:?}: {row:?}",
            self.from
        )
    }
}

impl<'a> Case<'a> {
    fn of(site: &'a Site, pool: &'a LockPool, row: &'a Row, before: usize) -> Vec<Self> {
        let column = site.column;
        let mut cases = Vec::new();
        for &kind in row.kinds.iter().filter(|it| column.has_kind(it)) {
            for &fault in row.faults.iter().filter(|it| column.has_fault(**it)) {
                let met = column.met(row, fault);
                let each = met.flat_map(|it| row.from.iter().map(move |from| (it, from)));
                for (request, &from) in each {
                    let item = Item::new(kind, before + cases.len());
                    cases.push(Self {
                        site,
                        pool,
                        row,
                        item,
                        fault,
                        request,
                        from,
                    });
                }
            }
        }
        cases
    }

    async fn check(&self) {
        let (site, row) = (self.site, self.row);
        let caller = Doomed::of(self.from);
        site.ready(self.pool, &Doomed::handle(caller.as_ref()))
            .await;
        let record = site.record(&self.item);
        let holder = self.holder().await;
        let mut metronome = None;
        if row.then.contains(&Step::Periods) {
            metronome = Some(site.metronome(self.pool).await);
        }
        let given = self.given().await;
        site.forget().await;
        let at_clean_ups = row.at_clean_ups.map(|fault| {
            let cancels = || self.matcher(Frame::Cancel, 0).every();
            site.on(cancels, fault)
        });
        let met = site.on(|| self.matcher(row.frame(), self.request), self.fault);
        let before = site.accepted();
        if row.before == Before::Stopped {
            site.servers().for_each(RedisServer::stop_signal);
        }
        if row.call == Call::Release && row.frame() == Frame::Renew {
            met.seen().await; // the release begins during a renewal
        }
        let mut calls = Calls::begin(caller, given);
        calls.held.extend(holder);
        met.seen().await;
        for step in row.then {
            self.step(*step, &mut calls, &record, at_clean_ups.as_ref(), before)
                .await;
        }
        self.ended(&mut calls).await;
        if row.ends == Ends::Had {
            self.stay(&calls.held).await;
        }
        drop(metronome);
        site.clear_triggers();
        let undriven = calls.undriven.take();
        drop(calls);
        if site.column.creates_nothing(row) {
            assert_eq!(record.created().await, 0);
            assert_eq!(site.left().await, [""; 0]);
        }
        site.until_free().await;
        if let Some(runtime) = undriven {
            runtime.shutdown_background();
        }
        site.deliver();
        if row.ends == Ends::Never || row.is_renewed {
            let lives = match row.before {
                Before::Held => 1..=2, // a waiter that goes may just be granted it
                _ if row.then.contains(&Step::Next) => 2..=2,
                _ if row.then.contains(&Step::Executed) => 0..=1, // in time or not
                _ => 1..=1,
            };
            site.is_sound(self.pool, &record, lives, row).await;
        }
    }

    /// Who has the lock before the call, or the last of several.
    async fn holder(&self) -> Option<LockGuard> {
        if self.row.before != Before::Held {
            return None;
        }
        let key = match self.row.call {
            Call::SeveralInTurn => format!("{}:last", self.item.key),
            _ => self.item.key.clone(),
        };
        let request = self.pool.lock(key).ttl(self.site.column.lease());
        Some(request.acquire().await.unwrap())
    }

    fn matcher(&self, frame: Frame, request: usize) -> Matcher {
        let mut requests = self.site.column.requests(self.row, frame, &self.item);
        requests.swap_remove(request)
    }

    /// What is to be called, by each caller.
    async fn given(&self) -> Vec<Given> {
        let (site, row) = (self.site, self.row);
        let callers = 0..row.callers;
        let requests = callers.map(|nth| site.request(self.pool, row, &self.item, nth));
        match row.call {
            Call::Try | Call::Wait | Call::Several | Call::SeveralInTurn => {
                requests.map(Given::Request).collect()
            }
            Call::Run | Call::RunInBackground => requests.map(Given::Run).collect(),
            Call::Body => requests.map(Given::Body).collect(),
            Call::Keep => requests.map(Given::Keep).collect(),
            Call::Release => {
                let guards = join_all(requests.map(LockRequest::acquire)).await;
                let guards = guards.into_iter().map(Result::unwrap);
                guards.map(Given::Guard).collect()
            }
        }
    }

    async fn step(
        &self,
        step: Step,
        calls: &mut Calls,
        record: &Record,
        at_clean_ups: Option<&Met>,
        before: u64,
    ) {
        let (site, row) = (self.site, self.row);
        match step {
            Step::Ended => self.ended(calls).await,
            Step::Goes => calls.go(site.column == Column::Minority).await,
            Step::HalfGo => {
                let half = calls.each.iter().step_by(2);
                half.for_each(future::AbortHandle::abort);
                yield_now().await; // the calls' task drops them
            }
            Step::CutAll => site.wires().for_each(|wire| wire.cut_all()),
            // No event to wait for.
            Step::LastMoment => wait::pause(row.command_timeout * 4).await,
            Step::CleanUp => record.until(Frame::Cancel).await,
            Step::CleanUps => {
                let met = at_clean_ups.unwrap();
                let before = met.fired();
                until("clean-ups beside the live lock", CAP, async || {
                    met.fired() > before + 2
                })
                .await;
            }
            Step::There => until("it is there", CAP, async || site.has(&self.item).await).await,
            Step::NotThere => assert!(!site.has(&self.item).await),
            Step::Next => {
                let next = site.direct().await;
                let next = site.request(&next, row, &self.item, 0).acquire().await;
                calls.held.push(next.unwrap());
            }
            Step::Queued => site.until_queued(&self.item).await,
            Step::Undisturbed => {
                let guard = calls.held.pop().unwrap();
                guard.verify().await.unwrap();
                guard.release().await.unwrap();
            }
            Step::Deliver => site.deliver(),
            Step::Continue => site.servers().for_each(RedisServer::cont),
            Step::Executed => record.until(row.frame()).await,
            Step::Created => record.until_created().await,
            Step::Periods if site.column.has_one_script_each() => site.until_beats(record).await,
            Step::Periods => {}
            Step::Replaced if site.column == Column::Minority => {} // the others answered
            Step::Replaced => assert!(site.accepted() > before, "over a new connection"),
        }
    }

    /// The calls have ended, as the row says.
    async fn ended(&self, calls: &mut Calls) {
        let row = self.row;
        let Some(task) = calls.task.take() else {
            return; // they had ended before, or were dropped
        };
        let within = match row.ends {
            // Its release is on its way.
            Ends::Value if row.call == Call::RunInBackground => self.site.column.soon(),
            Ends::Unclear | Ends::Told | Ends::Freed | Ends::Value | Ends::Failed => {
                row.command_timeout + SLACK
            }
            Ends::Had => self.site.column.soon(),
            Ends::Never => panic!("nobody has dropped it"),
        };
        let mut had = Vec::new();
        let half_go = row.then.contains(&Step::HalfGo);
        for (nth, ended) in task.await.unwrap().into_iter().enumerate() {
            if half_go && nth % 2 == 0 {
                continue; // its answer may have come before it went
            }
            let (took, ended) = ended.unwrap();
            assert!(took < wait::scaled(within), "{ended:?} after {took:?}");
            match (row.ends, ended) {
                (Ends::Unclear, Ended::Asked(Err(error)))
                | (Ends::Told, Ended::Released(Err(error)))
                    if matches!(error, LockError::Unavailable { .. }) => {}
                (Ends::Told | Ends::Freed, Ended::Released(Ok(Released::Freed)))
                | (Ends::Value, Ended::Ran(Ok(7)))
                | (Ends::Failed, Ended::Asked(Err(_))) => {}
                (Ends::Told, Ended::Released(Ok(Released::NotHeld))) if self.may_be_repeated() => {}
                (Ends::Unclear | Ends::Had, Ended::Asked(Ok(guard))) => had.push(guard),
                (_, ended) => panic!("{ended:?}"),
            }
        }
        match row.ends {
            Ends::Unclear => self.may_be_had(had.len()),
            _ => calls.held.extend(had),
        }
    }

    /// Whether a release may be sent again within its call, and find nothing.
    fn may_be_repeated(&self) -> bool {
        self.row.callers > 1 || self.site.column == Column::WithoutScripts
    }

    /// How many calls may have had their lock although the wire was cut.
    fn may_be_had(&self, had: usize) {
        let column = self.site.column;
        match self.row.callers {
            _ if column == Column::Minority => assert_eq!(had, self.row.callers),
            1 => assert!(had == 0 || column.is_whole(self.fault)),
            _ => assert!(had <= 2, "two are sent by themselves: {had}"),
        }
    }

    /// Checks for a while that nothing takes a lock from its holder.
    async fn stay(&self, held: &[LockGuard]) {
        let site = self.site;
        // Only what was created before the cut may still be taken back.
        until("one holder", site.column.soon(), async || {
            site.holders(&self.item).await == 1
        })
        .await;
        if !matches!(site.column, Column::Quorum | Column::Minority) {
            until("no others are held", site.column.soon(), async || {
                site.left().await.len() == held.len()
            })
            .await;
        }
        let key = held.last().unwrap().key().as_str();
        let before = site.at(key).await;
        assert_eq!(before.len(), 1, "a live lock is gone");
        let looks = if self.item.kind == "x" { 25 } else { 8 };
        for _ in 0..looks {
            assert_eq!(site.at(key).await, before, "a live lock was touched");
            wait::pause(Duration::from_millis(20)).await;
        }
        for guard in held {
            is_held(guard).await;
        }
    }
}

enum Given {
    Request(LockRequest),
    Guard(LockGuard),
    Run(LockRequest),
    Body(LockRequest),
    Keep(LockRequest),
}

#[derive(Debug)]
enum Ended {
    Asked(Result<LockGuard, LockError>),
    Released(Result<Released, LockError>),
    Ran(Result<u32, LockError>),
}

/// How a call ended and what time it took, if its caller stayed.
type Outcome = Result<(Duration, Ended), Aborted>;

/// Calls under way, all on one task, so that they are made at once; and the locks that were got.
struct Calls {
    task: Option<JoinHandle<Vec<Outcome>>>,
    each: Vec<future::AbortHandle>,
    /// Where the task is, if not on the test's runtime.
    runtime: Option<Doomed>,
    undriven: Option<Runtime>,
    held: Vec<LockGuard>,
}

impl Calls {
    fn begin(runtime: Option<Doomed>, given: Vec<Given>) -> Self {
        let begun = Instant::now();
        let call = move |given| async move {
            let ended = match given {
                Given::Request(request) => Ended::Asked(request.acquire().await),
                Given::Guard(guard) => Ended::Released(guard.release().await),
                Given::Run(request) => Ended::Ran(request.run(async |_| 7).await),
                Given::Keep(request) => {
                    let _guard = request.acquire().await;
                    pending().await
                }
                Given::Body(request) => Ended::Ran(request.run(async |_| pending().await).await),
            };
            (begun.elapsed(), ended)
        };
        let (calls, each): (Vec<_>, _) = given.into_iter().map(|it| abortable(call(it))).unzip();
        let all = async move { join_all(calls).await };
        Self {
            task: Some(Doomed::handle(runtime.as_ref()).spawn(all)),
            each,
            runtime,
            undriven: None,
            held: Vec::new(),
        }
    }

    /// The callers drop their calls, or their locks if they may have them.
    async fn go(&mut self, may_have: bool) {
        let task = self.task.take().unwrap();
        match self.runtime.take() {
            Some(doomed) => self.undriven = doomed.end(task.abort_handle()).await,
            None => task.abort(),
        }
        match task.await {
            Err(error) => assert!(error.is_cancelled()),
            Ok(ended) => assert!(may_have, "{ended:?}"),
        }
    }
}

/// A runtime that runs on a thread of its own until its end.
struct Doomed {
    handle: Handle,
    ends: oneshot::Sender<AbortHandle>,
    thread: thread::JoinHandle<Option<Runtime>>,
}

impl Doomed {
    fn of(caller: Caller) -> Option<Self> {
        let mut builder = match caller {
            Caller::Task => return None,
            Caller::CurrentThread | Caller::CurrentThreadInBackground | Caller::Undriven => {
                Builder::new_current_thread()
            }
            Caller::MultiThread | Caller::Background => Builder::new_multi_thread(),
        };
        let runtime = builder.enable_all().build().unwrap();
        let handle = runtime.handle().clone();
        let (ends, end) = oneshot::channel();
        let thread = thread::spawn(move || {
            runtime.block_on(async {
                let task: AbortHandle = end.await.unwrap();
                if caller == Caller::Undriven {
                    task.abort();
                    until("it is dropped", CAP, async || task.is_finished()).await;
                }
            });
            match caller {
                Caller::Undriven => return Some(runtime),
                Caller::Background | Caller::CurrentThreadInBackground => {
                    runtime.shutdown_background();
                }
                _ => drop(runtime),
            }
            None
        });
        Some(Self {
            handle,
            ends,
            thread,
        })
    }

    /// Where a caller's tasks run: without a runtime of its own, on the test's.
    fn handle(runtime: Option<&Self>) -> Handle {
        runtime.map_or_else(Handle::current, |doomed| doomed.handle.clone())
    }

    /// Ends it; returns it if it lives on, and is not run.
    async fn end(self, task: AbortHandle) -> Option<Runtime> {
        self.ends.send(task).unwrap();
        let joined = tokio::task::spawn_blocking(|| self.thread.join());
        joined.await.unwrap().unwrap()
    }
}
