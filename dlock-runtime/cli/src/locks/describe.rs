//! A lock's report as cells of a table and as JSON.

use std::time::Duration;

use dlock_runtime::{Holder, HolderReport, LastRun, LockReport, WaiterReport};
use serde_json::{Value, json};

use crate::table::{about, about_or_dash};

/// The header of [`row`].
pub(super) const HEADER: [&str; 7] = [
    "KEY", "KIND", "HOLDER", "SINCE", "LEASE", "WAITING", "LONGEST",
];

/// The header of [`last_run_row`].
pub(super) const LAST_RUN: [&str; 4] = ["LAST RUN BY", "BEGAN", "TOOK", "DUE IN"];

/// The lease of what has no time to live.
const NO_END: &str = "no end";

/// A lock in one row. Without a queue at the server nothing is said of those who wait.
pub(super) fn row(lock: &LockReport, has_queue: bool) -> [String; 7] {
    let first = lock.holders().first();
    let holder = first.map_or_else(|| "-".to_owned(), |it| who(it.holder()));
    let others = lock.holder_count().saturating_sub(1);
    let holder = match others {
        0 => holder,
        others => format!("{holder} and {others} more"),
    };
    let kind = lock
        .kind()
        .map_or_else(|| "-".to_owned(), ToString::to_string);
    [
        lock.key().to_owned(),
        kind,
        holder,
        about_or_dash(first.and_then(HolderReport::age)),
        match lock.remaining() {
            None if first.is_some() => NO_END.to_owned(),
            Some(left) => lease(left, first.is_some_and(HolderReport::is_kept)),
            None => about_or_dash(None),
        },
        if has_queue {
            lock.waiter_count().to_string()
        } else {
            "?".to_owned()
        },
        about_or_dash(lock.waiting()),
    ]
}

/// What stands in for the locks of a server that could not be asked.
pub(super) fn missing_row(why: &str) -> [String; 7] {
    let mut row = [const { String::new() }; 7].map(|_| "-".to_owned());
    (row[0], row[2]) = ("(missing)".to_owned(), why.to_owned());
    row
}

/// What is left, marked if the holder is done.
fn lease(left: Duration, is_kept: bool) -> String {
    if is_kept {
        format!("{} (min_hold)", about(left))
    } else {
        about(left)
    }
}

/// Host, process and function.
pub(super) fn who(holder: &Holder) -> String {
    match holder {
        Holder::Process(it) => format!("{}:{} {}", it.host(), it.pid(), it.function()),
        other => other.to_string(),
    }
}

/// A row of the table of holders.
pub(super) fn holder_row(holder: &HolderReport) -> [String; 5] {
    let lease = match holder.remaining() {
        Some(left) => lease(left, holder.is_kept()),
        None => NO_END.to_owned(),
    };
    [
        holder.fingerprint().to_string(),
        holder.kind().to_string(),
        who(holder.holder()),
        about_or_dash(holder.age()),
        lease,
    ]
}

/// A row of the table of waiters.
pub(super) fn waiter_row(waiter: &WaiterReport) -> [String; 4] {
    let waits = about(waiter.waiting());
    [
        waiter.fingerprint().to_string(),
        waiter.kind().to_string(),
        who(waiter.waiter()),
        if waiter.is_silent() {
            format!("{waits} (no sign of life)")
        } else {
            waits
        },
    ]
}

/// The row of a last run.
pub(super) fn last_run_row(run: &LastRun) -> [String; 4] {
    let who = match run.started() {
        Some(_) => format!("{}:{} {}", run.host(), run.pid(), run.function()),
        None => "(a record that this version can't read)".to_owned(),
    };
    [
        who,
        age(run).map_or_else(|| about_or_dash(None), |age| format!("{} ago", about(age))),
        match took(run) {
            None if run.started().is_some() => "(no end is recorded)".to_owned(),
            took => about_or_dash(took),
        },
        about(run.due_in()),
    ]
}

/// How long ago it began, by the server's clock. Of a record that was read for no call, what is left
/// is of its own period.
fn age(run: &LastRun) -> Option<Duration> {
    Some(run.period()?.saturating_sub(run.due_in()))
}

fn took(run: &LastRun) -> Option<Duration> {
    run.ended()?.duration_since(run.started()?).ok()
}

/// Adds the last run to the JSON of its lock.
pub(super) fn add_last_run(json: &mut Value, run: Option<&LastRun>) {
    let run = run.map(|run| {
        let is_known = run.started().is_some();
        json!({
            "host": is_known.then(|| run.host()),
            "pid": is_known.then(|| run.pid()),
            "function": is_known.then(|| run.function()),
            "fence": run.fence().map(|fence| fence.to_string()),
            "age_ms": millis(age(run)),
            "took_ms": millis(took(run)),
            "period_ms": millis(run.period()),
            "due_in_ms": millis(Some(run.due_in())),
        })
    });
    add(json, "last_run", run);
}

/// The whole report. Fences are text, because a program that reads numbers as `f64` would round
/// them. Without a queue at the server it is not known who waits: `null`.
pub(super) fn json(lock: &LockReport, has_queue: bool) -> Value {
    let waiters = || lock.waiters().iter().map(waiter_json).collect::<Vec<_>>();
    json!({
        "key": lock.key(),
        "kind": lock.kind().map(ToString::to_string),
        "holder_count": lock.holder_count(),
        "holders": lock.holders().iter().map(holder_json).collect::<Vec<_>>(),
        "waiter_count": has_queue.then(|| lock.waiter_count()),
        "waiters": has_queue.then(waiters),
        "is_whole": lock.is_whole(),
        "remaining_ms": millis(lock.remaining()),
        "waiting_ms": millis(lock.waiting()),
        "fence": lock.fence().map(|fence| fence.to_string()),
        "fence_at_most": lock.fence_at_most().to_string(),
        "kept_by": lock.kept_by(),
    })
}

/// The same of a lock that nobody holds, or waits for as far as that is known.
pub(super) fn json_of_free(key: &str, has_queue: bool) -> Value {
    json!({
        "key": key,
        "kind": null,
        "holder_count": 0,
        "holders": [],
        "waiter_count": has_queue.then_some(0),
        "waiters": has_queue.then(|| json!([])),
        "is_whole": true,
        "remaining_ms": null,
        "waiting_ms": null,
        "fence": null,
        "fence_at_most": null,
        "kept_by": null,
    })
}

fn holder_json(holder: &HolderReport) -> Value {
    let mut json = process_json(holder.holder());
    add(&mut json, "fingerprint", holder.fingerprint().to_string());
    add(&mut json, "kind", holder.kind().to_string());
    add(&mut json, "age_ms", millis(holder.age()));
    add(&mut json, "remaining_ms", millis(holder.remaining()));
    add(&mut json, "is_kept", holder.is_kept());
    json
}

fn waiter_json(waiter: &WaiterReport) -> Value {
    let mut json = process_json(waiter.waiter());
    add(&mut json, "fingerprint", waiter.fingerprint().to_string());
    add(&mut json, "kind", waiter.kind().to_string());
    add(&mut json, "waiting_ms", millis(Some(waiter.waiting())));
    add(&mut json, "is_silent", waiter.is_silent());
    json
}

fn process_json(holder: &Holder) -> Value {
    match holder {
        Holder::Process(it) => json!({
            "host": it.host(),
            "pid": it.pid(),
            "function": it.function(),
        }),
        _ => json!({"host": null, "pid": null, "function": null}),
    }
}

fn add(object: &mut Value, name: &str, value: impl Into<Value>) {
    if let Value::Object(fields) = object {
        fields.insert(name.to_owned(), value.into());
    }
}

fn millis(duration: Option<Duration>) -> Option<u64> {
    duration.map(|it| u64::try_from(it.as_millis()).unwrap_or(u64::MAX))
}
