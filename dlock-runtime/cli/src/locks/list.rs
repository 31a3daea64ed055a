//! `dlock ls`: the locks that are held.

use std::collections::HashSet;
use std::error::Error as _;

use dlock_runtime::{Admin, Listing, LockError, LockReport};
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
        let message =
            format!("there are more than {limit}: narrow the pattern, or raise `--limit`");
        notices.say("more", &message);
    }
    Ok(found.status())
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
                return Ok(status_of(&list));
            }
            left -= 1;
            let lock = describe::json(lock, admin.sees_waiters());
            output::print(&format!("{lock}\n"))?;
        }
    }
    for why in missing(&list) {
        output::print(&format!("{}\n", json!({"missing": why})))?;
    }
    Ok(status_of(&list))
}

fn status_of(list: &Listing) -> u8 {
    if list.missing().is_empty() {
        0
    } else {
        status::PARTIAL
    }
}

/// Why each server is missing, which begins with its name.
fn missing(list: &Listing) -> Vec<String> {
    let why = |error: &LockError| match error.source() {
        Some(source) => source.to_string(),
        None => error.to_string(),
    };
    list.missing().iter().map(why).collect()
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
            missing: missing(&list),
            has_queue: admin.sees_waiters(),
            status: status_of(&list),
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
