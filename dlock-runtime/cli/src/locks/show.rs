//! `dlock show` and `dlock evict`: one lock.

use dlock_runtime::{Eviction, Fingerprint, Key, LockPool, LockReport, Notice};
use serde_json::json;

use super::describe;
use super::list::UNSEEN;
use crate::args::{EvictArgs, ShowArgs};
use crate::output::{self, Notices};
use crate::server;
use crate::status::{self, Failure};
use crate::table::{self, about, visible};

/// Prints all holders and the queue.
pub(crate) async fn show(
    args: ShowArgs,
    url: Option<&str>,
    notices: Notices,
) -> Result<u8, Failure> {
    let pool = server::connect(url).await?;
    let key = args.key.as_str();
    args.verbatim.check(key, pool.namespace())?;
    let admin = pool.admin();
    let lock = admin.show(Key::verbatim(key)).await?;
    let has_queue = admin.sees_waiters();
    // Where nobody queues, no job runs once per period either.
    let last_run = if has_queue {
        admin.record(Key::verbatim(key)).await?
    } else {
        None
    };
    if lock.is_none() && last_run.is_none() {
        args.verbatim.check_key(key, pool.namespace())?; // a template is no lock that could be free
    }
    if notices.json {
        let mut json = match &lock {
            Some(lock) => describe::json(lock, has_queue),
            None => describe::json_of_free(key, has_queue),
        };
        describe::add_last_run(&mut json, last_run.as_ref());
        return output::print(&format!("{json}\n")).map(|()| 0);
    }
    let (shown, place) = (visible(key), server::place(&pool));
    let mut text = match &lock {
        Some(lock) => text(lock, has_queue),
        None if has_queue => format!("{shown} is free, and nobody waits for it{place}\n"),
        None => format!("{shown} is free{place}; {UNSEEN}\n"),
    };
    if let Some(run) = &last_run {
        let rows = [describe::last_run_row(run)];
        text.push('\n');
        text.push_str(&table::render(describe::LAST_RUN, &rows));
    }
    output::print(&text).map(|()| 0)
}

fn text(lock: &LockReport, has_queue: bool) -> String {
    let kind = match lock.kind() {
        Some(kind) => visible(&kind.to_string()),
        None => "nobody holds it".to_owned(),
    };
    let fence = match lock.fence() {
        Some(fence) => fence.to_string(),
        None => format!("at most {}", lock.fence_at_most()),
    };
    let lease = match (lock.remaining(), lock.kind()) {
        (Some(left), _) => format!("lease {}, ", about(left)),
        (None, Some(_)) => "no lease: it never ends by itself, ".to_owned(),
        (None, None) => String::new(),
    };
    let mut parts = vec![format!(
        "{}: {kind}\n{lease}fence {fence}\n",
        visible(lock.key())
    )];
    if let Some(who) = lock.kept_by() {
        parts.push(format!("{}\n", kept_by(who)));
    }
    let holders: Vec<_> = lock.holders().iter().map(describe::holder_row).collect();
    if !holders.is_empty() {
        let header = ["HELD BY", "AS", "WHO", "SINCE", "LEASE"];
        parts.push(table::render(header, &holders));
    }
    let waiters: Vec<_> = lock.waiters().iter().map(describe::waiter_row).collect();
    if !waiters.is_empty() {
        let header = ["WAITS", "AS", "WHO", "SINCE"];
        parts.push(table::render(header, &waiters));
    }
    if !has_queue {
        parts.push(format!("{UNSEEN}\n"));
    }
    if !lock.is_whole() {
        let (holders, waiters) = (lock.holder_count(), lock.waiter_count());
        parts.push(format!(
            "{holders} holders and {waiters} waiters in all, the first are shown\n"
        ));
    }
    parts.join("\n")
}

/// Releases a lock in its holder's stead, or removes the record of its last run.
pub(crate) async fn evict(
    args: EvictArgs,
    url: Option<&str>,
    notices: Notices,
) -> Result<u8, Failure> {
    let pool = server::connect(url).await?;
    args.verbatim.check(&args.key, pool.namespace())?;
    let Some(holder) = &args.holder else {
        return forget(&args.key, &pool, notices).await;
    };
    let holder: Fingerprint = holder.parse()?;
    let key = visible(&args.key);
    let eviction = pool
        .admin()
        .evict(Key::verbatim(args.key.as_str()), holder)
        .await?;
    let (status, word, message) = match eviction {
        Eviction::Done(notice) => {
            let report = pool.admin().show(Key::verbatim(args.key.as_str())).await;
            let report = report.ok().flatten();
            let kept = report.as_ref().and_then(LockReport::kept_by);
            let kept = kept.map_or_else(String::new, |who| format!("; {}", kept_by(who)));
            let message = format!("{key}: evicted {holder}; {}{kept}", about_notice(notice));
            (0, "evicted", message)
        }
        Eviction::Free => (
            status::NO,
            "free",
            format!("{key} is free{}: nothing was changed", server::place(&pool)),
        ),
        _ => (
            status::NO,
            "no_such_holder",
            format!(
                "{key} is not held by {holder}: nothing was changed; see {} for who holds it now",
                args.verbatim.show_command(&args.key)
            ),
        ),
    };
    if notices.json {
        let told = matches!(eviction, Eviction::Done(Notice::Sent));
        let json =
            json!({"key": args.key, "holder": holder.to_string(), "result": word, "told": told});
        output::print(&format!("{json}\n"))?;
    } else if status == 0 {
        output::print(&format!("{message}\n"))?;
    } else {
        notices.say(word, &message);
    }
    Ok(status)
}

/// What is left to do until somebody else can hold the lock.
fn kept_by(who: &str) -> String {
    format!(
        "a transaction that has checked the lock is still open, and nobody is granted it before that ends (`pg_terminate_backend`, `ROLLBACK PREPARED`): {}",
        visible(who)
    )
}

/// Removes the record of the last run.
async fn forget(key: &str, pool: &LockPool, notices: Notices) -> Result<u8, Failure> {
    let admin = pool.admin();
    let last_run = admin.record(Key::verbatim(key)).await?;
    let is_removed = admin.clear_record(Key::verbatim(key)).await?;
    let (status, word) = if is_removed {
        (0, "removed")
    } else {
        (status::NO, "no_record")
    };
    let shown = visible(key);
    if notices.json {
        let mut json = json!({"key": key, "result": word});
        describe::add_last_run(&mut json, last_run.as_ref());
        output::print(&format!("{json}\n"))?;
    } else if is_removed {
        let of = last_run.map_or_else(String::new, |run| format!(" ({run})"));
        output::print(&format!(
            "{shown}: removed the record of the last run{of}; the next call runs\n"
        ))?;
    } else {
        let place = server::place(pool);
        notices.say(
            word,
            &format!("{shown} has no record of a last run{place}: nothing was changed"),
        );
    }
    Ok(status)
}

fn about_notice(notice: Notice) -> &'static str {
    match notice {
        Notice::Sent => {
            "a message was sent to it: if it gets that, it stops within a round trip, otherwise it notices at its next renewal"
        }
        Notice::NoAddress => {
            "it can't be told, because its entry names no address: if it still runs, it notices at its next renewal"
        }
        _ => {
            "it was not told (may this user PUBLISH to it? see `dlock check`): if it still runs, it notices at its next renewal"
        }
    }
}
