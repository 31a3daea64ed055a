//! `dlock ls`: the locks that are held, or the last runs.

use std::collections::{BTreeMap, HashSet};
use std::error::Error as _;

use dlock_runtime::{Admin, LockError, LockPool, LockReport};
use serde_json::json;

use super::describe;
use crate::args::ListArgs;
use crate::output::{self, Notices};
use crate::status::{self, Failure};
use crate::{server, table};

/// The most rows of a table, unless `--limit` says another number.
const ROWS: usize = 1_000;

/// What is said once where it is not known who waits.
pub(super) const UNSEEN: &str =
    "with several servers nobody queues at any of them, so who waits can't be seen";

/// Prints the locks that match.
pub(crate) async fn list(
    args: ListArgs,
    url: Option<&str>,
    notices: Notices,
) -> Result<u8, Failure> {
    let pool = server::connect(url).await?;
    args.verbatim.check(&args.pattern, pool.namespace())?;
    if args.records {
        return records(&pool, &args, notices).await;
    }
    if notices.json {
        return lines(&pool.admin(), &args, notices).await;
    }
    let limit = args.limit.unwrap_or(ROWS);
    let mut found = Found::read(&pool.admin(), &args.pattern, limit).await?;
    found.locks.sort_by(|one, other| one.key().cmp(other.key()));
    if found.locks.is_empty() && found.missing.is_empty() {
        let place = server::place(&pool);
        notices.say("none", &format!("nobody holds a lock that matches{place}"));
        return Ok(0);
    }
    found.print(notices)?;
    if !found.is_all {
        say_more(notices, limit);
    }
    Ok(found.status())
}

fn say_more(notices: Notices, limit: usize) {
    let message = format!("there are more than {limit}: narrow the pattern, or raise `--limit`");
    notices.say("more", &message);
}

/// Prints the last runs that match, sorted by key.
async fn records(pool: &LockPool, args: &ListArgs, notices: Notices) -> Result<u8, Failure> {
    let usual = if notices.json { usize::MAX } else { ROWS };
    let limit = args.limit.unwrap_or(usual);
    let (mut found, mut is_all) = (BTreeMap::new(), true);
    let mut list = pool.admin().records(args.pattern.as_str()).partial();
    while let Some(page) = list.next_page().await? {
        found.extend(page);
        while found.len() > limit {
            (is_all, _) = (false, found.pop_last());
        }
    }
    let missing = missing(list.missing());
    if notices.json {
        for (key, run) in &found {
            let mut json = json!({"key": key});
            describe::add_last_run(&mut json, Some(run));
            output::print(&format!("{json}\n"))?;
        }
        print_missing(&missing)?;
    } else if found.is_empty() && missing.is_empty() {
        let place = server::place(pool);
        notices.say(
            "none",
            &format!("no last run is recorded that matches{place}"),
        );
    } else {
        let away = missing
            .iter()
            .map(|why| ["(missing)", why, "-", "-", "-"].map(str::to_owned));
        let rows = found.iter().map(|(key, run)| {
            let [who, began, took, due_in] = describe::last_run_row(run);
            [key.clone(), who, began, took, due_in]
        });
        let rows: Vec<_> = away.chain(rows).collect();
        let [who, began, took, due_in] = describe::LAST_RUN;
        output::print(&table::render(["KEY", who, began, took, due_in], &rows))?;
    }
    if !is_all {
        say_more(notices, limit);
    }
    Ok(status_of(list.missing()))
}

/// One JSON object a line, as they are found; last, one for each server that is missing.
async fn lines(admin: &Admin, args: &ListArgs, notices: Notices) -> Result<u8, Failure> {
    let mut left = args.limit.unwrap_or(usize::MAX);
    let mut seen = HashSet::new();
    let mut list = admin.list(args.pattern.as_str()).partial();
    while let Some(page) = list.next_page().await? {
        for lock in page
            .iter()
            .filter(|lock| seen.insert(lock.key().to_owned()))
        {
            if left == 0 {
                notices.say("more", "there are more: raise `--limit`");
                return Ok(status_of(list.missing()));
            }
            left -= 1;
            let lock = describe::json(lock, admin.sees_waiters());
            output::print(&format!("{lock}\n"))?;
        }
    }
    print_missing(&missing(list.missing()))?;
    Ok(status_of(list.missing()))
}

/// An object for each server that is missing.
fn print_missing(why: &[String]) -> Result<(), Failure> {
    let mut each = why.iter();
    each.try_for_each(|why| output::print(&format!("{}\n", json!({"missing": why}))))
}

fn status_of(missing: &[LockError]) -> u8 {
    if missing.is_empty() {
        0
    } else {
        status::PARTIAL
    }
}

/// Why each server is missing, which begins with its name.
fn missing(errors: &[LockError]) -> Vec<String> {
    let why = |error: &LockError| match error.source() {
        Some(source) => source.to_string(),
        None => error.to_string(),
    };
    errors.iter().map(why).collect()
}

/// The locks that match.
pub(super) struct Found {
    /// Each once.
    pub(super) locks: Vec<LockReport>,
    /// Whether there are no more than the limit.
    pub(super) is_all: bool,
    /// Why some servers could not be asked.
    pub(super) missing: Vec<String>,
    /// Whether it is known who waits.
    pub(super) has_queue: bool,
    status: u8,
}

impl Found {
    pub(super) async fn read(admin: &Admin, pattern: &str, limit: usize) -> Result<Self, Failure> {
        let (mut locks, mut is_all) = (Vec::new(), true);
        let mut seen = HashSet::new();
        let mut list = admin.list(pattern).partial();
        while let Some(page) = list.next_page().await? {
            let mut new = page.into_iter();
            let new = new
                .by_ref()
                .filter(|lock| seen.insert(lock.key().to_owned()));
            locks.extend(new.take(limit + 1 - locks.len()));
            if locks.len() > limit {
                (is_all, _) = (false, locks.pop());
                break;
            }
        }
        Ok(Self {
            locks,
            is_all,
            missing: missing(list.missing()),
            has_queue: admin.sees_waiters(),
            status: status_of(list.missing()),
        })
    }

    pub(super) fn status(&self) -> u8 {
        self.status
    }

    /// A row for each lock, behind those for what is missing.
    pub(super) fn rows(&self) -> impl Iterator<Item = [String; 7]> {
        let missing = self.missing.iter().map(|why| describe::missing_row(why));
        let locks = self.locks.iter();
        missing.chain(locks.map(|lock| describe::row(lock, self.has_queue)))
    }

    /// The table, with what is to be known about it.
    pub(super) fn print(&self, notices: Notices) -> Result<(), Failure> {
        let rows: Vec<_> = self.rows().collect();
        output::print(&table::render(describe::HEADER, &rows))?;
        if !self.has_queue {
            notices.say("unseen", UNSEEN);
        }
        Ok(())
    }
}
