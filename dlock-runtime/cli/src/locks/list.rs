//! `dlock ls`: the locks that are held.

use std::collections::HashSet;

use dlock_runtime::{Admin, LockReport};

use super::describe;
use crate::args::ListArgs;
use crate::output::{self, Notices};
use crate::status::Failure;
use crate::{server, table};

/// The most rows of a table, unless `--limit` says another number.
const ROWS: usize = 1_000;

/// Prints the locks that match.
pub(crate) async fn list(
    args: ListArgs,
    url: Option<&str>,
    notices: Notices,
) -> Result<u8, Failure> {
    let pool = server::connect(url).await?;
    args.verbatim.check(&args.pattern, pool.namespace())?;
    if notices.json {
        lines(&pool.admin(), &args, notices).await?;
        return Ok(0);
    }
    let limit = args.limit.unwrap_or(ROWS);
    let (mut locks, is_all) = all(&pool.admin(), &args.pattern, limit).await?;
    locks.sort_by(|one, other| one.key().cmp(other.key()));
    if locks.is_empty() {
        let place = server::place(&pool);
        notices.say("none", &format!("nobody holds a lock that matches{place}"));
        return Ok(0);
    }
    let rows: Vec<_> = locks.iter().map(describe::row).collect();
    output::print(&table::render(describe::HEADER, &rows))?;
    if !is_all {
        let message =
            format!("there are more than {limit}: narrow the pattern, or raise `--limit`");
        notices.say("more", &message);
    }
    Ok(0)
}

/// One JSON object a line, as they are found.
async fn lines(admin: &Admin, args: &ListArgs, notices: Notices) -> Result<(), Failure> {
    let mut left = args.limit.unwrap_or(usize::MAX);
    let mut seen = HashSet::new();
    let mut list = admin.list(args.pattern.as_str());
    while let Some(page) = list.next_page().await? {
        for lock in page
            .iter()
            .filter(|lock| seen.insert(lock.key().to_owned()))
        {
            if left == 0 {
                notices.say("more", "there are more: raise `--limit`");
                return Ok(());
            }
            left -= 1;
            output::print(&format!("{}\n", describe::json(lock)))?;
        }
    }
    Ok(())
}

/// Each lock once, at most so many; and whether that is all of them.
pub(super) async fn all(
    admin: &Admin,
    pattern: &str,
    limit: usize,
) -> Result<(Vec<LockReport>, bool), Failure> {
    let mut locks = Vec::new();
    let mut seen = HashSet::new();
    let mut list = admin.list(pattern);
    while let Some(page) = list.next_page().await? {
        for lock in page {
            if !seen.insert(lock.key().to_owned()) {
                continue;
            }
            if locks.len() == limit {
                return Ok((locks, false));
            }
            locks.push(lock);
        }
    }
    Ok((locks, true))
}
