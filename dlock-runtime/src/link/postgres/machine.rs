//! A command by the machine: what is read of its rows in one statement is decided by `rules`, and written
//! in another if the versions are still those that were read.
//!
//! A client that stops between the two keeps nothing locked. Invariant: a decision is written only if
//! nothing changed since, and while its caller waits for it, or not at all.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tokio_postgres::Row as AnswerRow;
use tokio_postgres::types::ToSql;

use super::push::OutgoingNotes;
use super::session::{self, PostgresLink};
use super::signed;
use super::statements::Ask;
use crate::link::command_error::CommandError;
use crate::link::joined;
use crate::link::redis::dial;
use crate::rules::Server;
use crate::rules::commands::{Acquire, Claim};
use crate::rules::row::{LoadedRows, LockRow, RowChange, SeenRow};
use crate::rules::window::{StoredQueue, StoredWaiter};
use crate::values::error::{Reason, Refusal};
use crate::values::moment::Moment;

/// So many entries from the head of a queue on are in a window.
pub(super) const HEADS: i64 = 32;

/// A row that is found locked for longer is kept by a transaction of the user's.
const KEPT_FOR: Duration = Duration::from_millis(100);

/// A row that is found locked for longer, and unchanged, is not locked by a statement that is being flushed.
const FLUSHED_WITHIN: Duration = Duration::from_millis(20);

/// Rows, and the server's time at which they were so.
pub(super) type ReadRows = (u64, Vec<SeenRow>);

impl PostgresLink {
    /// Runs a command on these keys, for these own entries. It creates nothing after `not_after`. `known`:
    /// what was read of the rows already.
    pub(super) async fn run<'k, T>(
        &self,
        (keys, own): (&[impl AsRef<str>], &[impl AsRef<str>]),
        not_after: u64,
        until: Instant,
        mut known: Option<ReadRows>,
        command: impl Fn(&mut Server, u64, &mut OutgoingNotes) -> (T, Vec<(&'k str, u64)>),
    ) -> Result<T, CommandError> {
        let keys: Vec<&str> = keys.iter().map(AsRef::as_ref).collect();
        let own: Vec<&str> = own.iter().map(AsRef::as_ref).collect();
        let (mut heads, mut round) = (HEADS, 0);
        let mut locked = LockedRows::default();
        loop {
            let (time, mut seen) = match known.take() {
                Some(known) => known,
                None => self.rows(&keys, heads, &own, until).await?,
            };
            locked.seen(&mut seen);
            let mut rows = LoadedRows::load(seen, &own, time).map_err(unreadable)?;
            let mut outbox = OutgoingNotes::default();
            let ((answer, told), more) = rows.run(|server| command(server, time, &mut outbox));
            if more {
                heads = i64::MAX;
                continue;
            }
            let changes = rows.changes(&told);
            if locked.keep_from(&changes) {
                let why = "a check in a transaction that is still open keeps the lock as it is";
                let refusal = Refusal::OpenTransaction;
                return Err(CommandError::Refused(refusal, Reason::new(why)));
            }
            let limit = not_after.min(limit(time, until));
            // Waiters are told right behind it, not a round trip later: if it is not written after all,
            // one asks in vain.
            let tells = async { self.notify(outbox) };
            let writes = Box::pin(self.write(&changes, WriteScope::All, limit, until));
            let (written, ()) = joined::both(writes, tells).await;
            match written? {
                Written::All => return Ok(answer),
                Written::Late => {}
                Written::Some(_) => locked.failed(changes),
            }
            round += 1;
            if !pause(round, until).await {
                let why =
                    "others changed the row in each attempt, or a transaction keeps it locked";
                return Err(CommandError::Unsent(Reason::new(why)));
            }
        }
    }

    /// Takes a contended lock, or gives it back (`taking`: `None`), if that is enough, and reads its row in the same
    /// statement, since it may not be. `Some`: what the statement tells.
    pub(super) async fn change_or_read(
        &self,
        claim: &Claim,
        taking: Option<&Acquire>,
        until: Instant,
    ) -> Result<(Option<u64>, ReadRows), CommandError> {
        let (keys, values, places) = ([&*claim.key], [&*claim.value], [0i64]);
        let (keys, values, places) = (&keys[..], &values[..], &places[..]);
        let (rows, sent) = if let Some(it) = taking {
            let (lease, not_after) = ([micros(it.lease.get())], [signed(it.not_after)]);
            let (lease, not_after) = (&lease[..], &not_after[..]);
            let params: [&(dyn ToSql + Sync); 5] = [&keys, &values, &places, &lease, &not_after];
            self.query(Ask::TakeOrRead, &params, until).await?
        } else {
            let params: [&(dyn ToSql + Sync); 3] = [&keys, &values, &places];
            self.query(Ask::GiveOrRead, &params, until).await?
        };
        let row = rows.first().ok_or_else(session::strange)?;
        let told: Option<i64> = session::read(row, 16)?;
        let told = told.and_then(|it| u64::try_from(it).ok());
        Ok((told, self.read_rows(&rows, sent, keys, HEADS)?))
    }

    /// Lets the machine read these keys, whole queues included.
    pub(super) async fn look<T>(
        &self,
        keys: &[Arc<str>],
        until: Instant,
        command: impl FnOnce(&mut Server, u64) -> T,
    ) -> Result<T, CommandError> {
        let keys: Vec<&str> = keys.iter().map(|it| &**it).collect();
        let (time, seen) = self.rows(&keys, i64::MAX, &[], until).await?;
        let mut rows = LoadedRows::load(seen, &[], time).map_err(unreadable)?;
        Ok(rows.run(|server| command(server, time)).0)
    }

    /// Reads rows and windows of their queues, at one time of the server's. Of no key, only that time.
    pub(super) async fn rows(
        &self,
        keys: &[&str],
        heads: i64,
        own: &[&str],
        until: Instant,
    ) -> Result<ReadRows, CommandError> {
        let time_only = [""];
        let asked = if keys.is_empty() { &time_only } else { keys };
        let (rows, sent) = self
            .query(Ask::Read, &[&asked, &heads, &own], until)
            .await?;
        self.read_rows(&rows, sent, keys, heads)
    }

    fn read_rows(
        &self,
        rows: &[AnswerRow],
        sent: Moment,
        keys: &[&str],
        heads: i64,
    ) -> Result<ReadRows, CommandError> {
        let mut time = 0;
        let mut seen: Vec<SeenRow> = Vec::new();
        for row in rows {
            time = self.heard(row, 0, sent)?;
            let at = usize::try_from(session::read::<i64>(row, 1)? - 1).unwrap_or(usize::MAX);
            if at >= seen.len()
                && let Some(key) = keys.get(at)
            {
                seen.push(seen_row(row, key)?);
            }
            if let (Some(waiter), Some(last)) = (waiter(row, heads)?, seen.last_mut()) {
                let (waiter, read_to) = waiter;
                last.queue.waiters.push(waiter);
                last.queue.read_to = last.queue.read_to.or(read_to);
            }
        }
        if rows.is_empty() || seen.len() < keys.len() {
            return Err(session::strange());
        }
        Ok((time, seen))
    }

    pub(super) async fn write(
        &self,
        changes: &[RowChange],
        scope: WriteScope,
        limit: u64,
        until: Instant,
    ) -> Result<Written, CommandError> {
        let mut written: Vec<(&RowChange, &LockRow)> = Vec::new();
        written.extend(changes.iter().filter_map(|it| Some((it, it.row.as_ref()?))));
        if written.is_empty() {
            for change in changes {
                for waiter in &change.waiters {
                    self.query(Ask::Beat, &[&&*change.key, &&*waiter.entry], until)
                        .await?;
                }
            }
            return Ok(Written::All);
        }
        written.sort_unstable_by_key(|(change, _)| &change.key);
        let new: Vec<&str> = (written.iter().filter(|(change, _)| change.version == 0))
            .map(|(change, _)| &*change.key)
            .collect();
        if !new.is_empty() {
            match self.query(Ask::Ensure, &[&new], until).await {
                Err(CommandError::Unsent(_)) if self.goes_on(until) => {
                    return Ok(Written::Some(Vec::new()));
                }
                ensured => ensured?,
            };
        }
        self.store(&written, scope, limit, until).await
    }

    async fn store(
        &self,
        written: &[(&RowChange, &LockRow)],
        scope: WriteScope,
        limit: u64,
        until: Instant,
    ) -> Result<Written, CommandError> {
        fn all<'a, T>(
            written: &[(&'a RowChange, &'a LockRow)],
            column: impl Fn(&'a RowChange, &'a LockRow) -> T,
        ) -> Vec<T> {
            written
                .iter()
                .map(|(change, row)| column(change, row))
                .collect()
        }
        let gone: Vec<(&str, i64)> = (written.iter())
            .flat_map(|(it, _)| it.gone.iter().map(|at| (&*it.key, signed(*at))))
            .collect();
        let come: Vec<(&str, &StoredWaiter)> = (written.iter())
            .flat_map(|(it, _)| it.waiters.iter().map(|waiter| (&*it.key, waiter)))
            .collect();
        let (gone_keys, gone_at): (Vec<_>, Vec<_>) = gone.into_iter().unzip();
        let come_keys: Vec<_> = come.iter().map(|(key, _)| *key).collect();
        let come_at: Vec<_> = come.iter().map(|(_, it)| signed(it.arrival)).collect();
        let alive: Vec<_> = come.iter().map(|(_, it)| signed(it.alive_until)).collect();
        let entries: Vec<_> = come.iter().map(|(_, it)| &*it.entry).collect();
        let answer = self
            .query(
                Ask::Store,
                &[
                    &all(written, |it, _| &*it.key),
                    &all(written, |it, _| it.version),
                    &all(written, |_, row| &*row.holder),
                    &all(written, |_, row| row.ends),
                    &all(written, |_, row| row.epoch),
                    &all(written, |_, row| row.sole),
                    &all(written, |_, row| &*row.members),
                    &all(written, |_, row| row.waiting),
                    &all(written, |_, row| &*row.record),
                    &all(written, |_, row| row.record_ends),
                    &all(written, |it, _| it.is_grant),
                    &gone_keys,
                    &gone_at,
                    &come_keys,
                    &come_at,
                    &alive,
                    &entries,
                    &signed(limit),
                    &all(written, |it, _| it.epoch),
                    &(scope == WriteScope::Each),
                    &written.iter().all(|(it, _)| it.may_be_lost),
                ],
                until,
            )
            .await;
        match answer {
            // It waited for a row, or would have for ever: nothing was changed.
            Err(CommandError::Unsent(_)) if self.goes_on(until) => Ok(Written::Some(Vec::new())),
            Err(error) => Err(error),
            Ok((rows, sent)) => {
                let row = rows.first().ok_or_else(session::strange)?;
                let time = self.heard(row, 0, sent)?;
                let keys: Vec<String> = session::read(row, 1)?;
                Ok(match keys.len() {
                    all if all == written.len() => Written::All,
                    _ if time > limit => Written::Late,
                    _ => Written::Some(keys),
                })
            }
        }
    }

    /// Whether what was not executed can be tried again.
    fn goes_on(&self, until: Instant) -> bool {
        Instant::now() < until && self.works()
    }

    /// In a statement of its own: a commit with a notification takes a lock of the whole server. If it is
    /// lost, waiters poll.
    fn notify(&self, outbox: OutgoingNotes) {
        if outbox.channels.is_empty() {
            return;
        }
        let session = self.session.clone();
        self.runtime.spawn(async move {
            let _ = session
                .send(Ask::Notify, &[&outbox.channels, &outbox.messages])
                .await;
        });
    }
}

/// What of several changes is written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum WriteScope {
    /// All of them, or none.
    All,
    /// Each by itself.
    Each,
}

/// What became of changes.
pub(super) enum Written {
    All,
    /// Their time was over; they are made again, or are too late.
    Late,
    /// Those of these keys; another row was changed since, or is locked.
    Some(Vec<String>),
}

/// Rows that were found locked although nobody changed them.
#[derive(Debug, Default)]
struct LockedRows {
    /// The grants that were not written, with the versions of their rows.
    failed: Vec<(Arc<str>, i64)>,
    since: Option<Instant>,
}

impl LockedRows {
    fn failed(&mut self, changes: Vec<RowChange>) {
        let grants = changes.into_iter().filter(|it| it.is_grant);
        self.failed = grants.map(|it| (it.key, it.version)).collect();
    }

    /// Whether a change can't be made while an open transaction keeps its row: nobody waits for it, since a
    /// holder changes its own hold. A statement of a moment keeps a row, too.
    fn keep_from(&self, changes: &[RowChange]) -> bool {
        self.were_for(KEPT_FOR) && changes.iter().any(|it| it.is_grant)
    }

    fn were_for(&self, time: Duration) -> bool {
        self.since.is_some_and(|it| it.elapsed() >= time)
    }

    fn seen(&mut self, seen: &mut [SeenRow]) {
        let is_locked = |it: &SeenRow| {
            let mut failed = self.failed.iter();
            failed.any(|(key, version)| *key == it.key && *version == it.version)
        };
        if seen.iter().any(is_locked) {
            self.since.get_or_insert_with(Instant::now);
        } else {
            self.since = None;
        }
        if self.were_for(FLUSHED_WITHIN) {
            for row in seen {
                row.is_kept |= is_locked(row);
            }
        }
    }
}

/// Before the next attempt; `false`: there is no time for one.
pub(super) async fn pause(round: u32, until: Instant) -> bool {
    let pause = Duration::from_micros(u64::from(round.saturating_sub(1)).min(50) * 200);
    let next = Instant::now() + pause;
    if next >= until {
        return false;
    }
    if pause.is_zero() {
        tokio::task::yield_now().await;
    } else {
        tokio::time::sleep_until(next).await;
    }
    true
}

fn seen_row(row: &AnswerRow, key: &str) -> Result<SeenRow, CommandError> {
    let version: Option<i64> = session::read(row, 2)?;
    let stored = match version {
        None => LockRow::default(),
        Some(_) => LockRow {
            holder: session::read(row, 3)?,
            ends: session::read(row, 4)?,
            epoch: session::read(row, 5)?,
            sole: session::read(row, 6)?,
            members: session::read(row, 7)?,
            waiting: session::read(row, 8)?,
            record: session::read(row, 9)?,
            record_ends: session::read(row, 10)?,
        },
    };
    Ok(SeenRow {
        key: key.into(),
        version: version.unwrap_or(0),
        row: stored,
        queue: StoredQueue::default(),
        is_kept: false,
    })
}

/// A waiter, and up to which arrival the queue is whole if it is the last head of a longer one.
fn waiter(
    row: &AnswerRow,
    heads: i64,
) -> Result<Option<(StoredWaiter, Option<u64>)>, CommandError> {
    let Some(arrival) = session::read::<Option<i64>>(row, 11)? else {
        return Ok(None);
    };
    let (place, places): (i64, i64) = (session::read(row, 14)?, session::read(row, 15)?);
    let arrival = u64::try_from(arrival).map_err(|_| session::strange())?;
    let alive_until: i64 = session::read(row, 12)?;
    let entry: String = session::read(row, 13)?;
    let waiter = StoredWaiter {
        entry: entry.into(),
        arrival,
        alive_until: u64::try_from(alive_until).unwrap_or(0),
    };
    Ok(Some((
        waiter,
        Some(arrival).filter(|_| place == heads && places > heads),
    )))
}

pub(super) fn unreadable(what: crate::rules::row::UnreadableRow) -> CommandError {
    let why = format!(
        "another program wrote the row: its column `{}` can't be read",
        what.0
    );
    CommandError::Refused(Refusal::WrongType, Reason::new(why))
}

/// Until when what was decided at this time may be written: others' statements, and their commits, may come
/// before it on this connection.
pub(super) fn limit(time: u64, until: Instant) -> u64 {
    time.saturating_add(micros(dial::left(until)).unsigned_abs())
}

/// As the columns are.
pub(super) fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}
