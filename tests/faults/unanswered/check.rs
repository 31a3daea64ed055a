//! Carries out the rows of a table: each of its kinds and faults is a case.

use std::fmt;
use std::time::Duration;

use dlock_harness::{Action, Matcher, RedisServer, all_cases, until, wait};
use dlock_runtime::{Batch, LockError, LockGuard, LockPool, LockRequest, Released};
use futures_util::future::{self, join_all};
use tokio::task::yield_now;

use super::calls::{Calls, Doomed, Ended, Given};
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

    /// A release behind a renewal that is under way is sent by the watchdog, as a clean-up. A row
    /// that means the caller's own is begun again then, in as many tries as a busy machine needs.
    async fn check(&self) {
        let tries = if self.row.at_release { 20 } else { 1 };
        for _ in 0..tries {
            if self.is_shown().await {
                return;
            }
        }
        panic!("each of {tries} releases came behind a renewal");
    }

    /// Whether the request that the row is about was sent; fails if what it shows is wrong.
    async fn is_shown(&self) -> bool {
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
        if row.at_release && calls.end_before(&met).await {
            drop(metronome);
            site.clear_triggers();
            site.until_free().await;
            return false;
        }
        met.seen().await;
        for step in row.then {
            self.step(*step, &mut calls, &record, at_clean_ups.as_ref(), before)
                .await;
        }
        self.ended(&mut calls).await;
        if row.call == Call::Write {
            self.writes_on(&calls.held[0]).await;
        }
        if matches!(row.ends, Ends::Had | Ends::Kept) {
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
            site.is_sound(self.pool, &record, row.lives(), row).await;
        }
        true
    }

    /// The next batch goes over a new connection.
    async fn writes_on(&self, guard: &LockGuard) {
        let clear = Batch::new().del(self.item.data());
        until("it writes again", CAP, async || {
            match guard.write(&clear).await {
                Err(LockError::Unavailable { .. }) => false,
                written => {
                    written.unwrap();
                    true
                }
            }
        })
        .await;
        assert_eq!(self.site.written(&self.item).await, [""; 0]);
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
            call @ (Call::Release | Call::Verify | Call::Extend | Call::Write) => {
                let guards = join_all(requests.map(LockRequest::acquire)).await;
                let (lease, data) = (site.column.lease(), self.item.data());
                let asked = |guard| match call {
                    Call::Release => Given::Guard(guard),
                    _ => Given::Asking(call, guard, lease, data.clone()),
                };
                let guards = guards.into_iter().map(Result::unwrap);
                guards.map(asked).collect()
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
            Step::Written => assert_eq!(site.written(&self.item).await, ["once"]),
            Step::Unwritten => assert_eq!(site.written(&self.item).await, [""; 0]),
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
            Ends::Unclear | Ends::Told | Ends::Freed | Ends::Kept | Ends::Value | Ends::Failed => {
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
                (Ends::Kept, Ended::Told(guard, told)) => {
                    self.may_be_told(&guard, told);
                    had.push(guard);
                }
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

    /// An answer that was not let through comes from no server; an unclear one ends no lease.
    fn may_be_told(&self, guard: &LockGuard, told: Result<(), LockError>) {
        assert!(guard.is_held(), "{told:?}");
        match told {
            Ok(()) => assert!(self.may_be_answered(), "by whom?"),
            Err(LockError::Unavailable { .. }) if self.row.call != Call::Write => {}
            Err(error @ LockError::Unavailable { .. }) => {
                assert!(format!("{error:?}").contains("look before you repeat it"));
            }
            Err(error) => panic!("{error:?}"),
        }
    }

    fn may_be_answered(&self) -> bool {
        self.site.column == Column::Minority || self.site.column.is_whole(self.fault)
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
