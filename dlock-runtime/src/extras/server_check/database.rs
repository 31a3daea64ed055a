//! What of PostgreSQL can harm locks: the topics of its check.

use super::{Concern, Finding, Harms, Info, Judged, Matters, Missing, PoolSettings, Topic};

/// In seconds: a transaction that has been open for longer is told.
const OPEN_FOR: u64 = 60;

pub(super) const TOPICS: [Topic; 6] = [
    flush,
    commits,
    idle_transactions,
    open_transactions,
    prepared_transactions,
    timeouts,
];

/// A setting that is there, whatever it is.
fn setting<'a>(info: Info<'a>, name: &'static str) -> Result<&'a str, Missing> {
    info.find(name).ok_or(Missing(name))
}

#[expect(clippy::unnecessary_wraps, reason = "as a topic returns it")]
fn found(concern: Concern, weight: super::Weight, risk: String, advice: &str) -> Judged {
    Ok(Some(Finding::new(concern, weight, risk, advice)))
}

fn flush(info: Info<'_>, _: &PoolSettings<'_>) -> Judged {
    let is_off = |name| Ok(info.text(name)? == "off");
    if !is_off("fsync")? && !is_off("full_page_writes")? {
        return Ok(None);
    }
    found(
        Concern::Persistence,
        Harms,
        "`fsync` or `full_page_writes` is off: if the server's machine crashes, its tables may be torn, and a lock have two holders"
            .to_owned(),
        "set both to `on` in postgresql.conf",
    )
}

fn commits(info: Info<'_>, _: &PoolSettings<'_>) -> Judged {
    if info.text("synchronous_commit")? != "off" {
        return Ok(None);
    }
    found(
        Concern::Persistence,
        Matters,
        "`synchronous_commit` is off: a crash of the server loses the grants of its last 0.6 s, so that another may hold a lock beside its holder until the next renewal"
            .to_owned(),
        "leave `synchronous_commit=off` out, or check the lock in your transactions, which lose nothing",
    )
}

fn idle_transactions(info: Info<'_>, _: &PoolSettings<'_>) -> Judged {
    let ends = |name| Ok(info.number(name)? > 0);
    if ends("idle_in_transaction_session_timeout")? || ends("transaction_timeout")? {
        return Ok(None);
    }
    found(
        Concern::Transactions,
        Matters,
        "`idle_in_transaction_session_timeout` is 0 here: a transaction that has checked a lock and stays open keeps it from its next holder for ever"
            .to_owned(),
        "type `ALTER DATABASE <database> SET idle_in_transaction_session_timeout = '30s'`",
    )
}

fn open_transactions(info: Info<'_>, _: &PoolSettings<'_>) -> Judged {
    let (seconds, hidden) = (info.number("oldest_seconds")?, info.number("hidden")?);
    if seconds >= OPEN_FOR {
        let who = info.text("oldest")?;
        return found(
            Concern::Transactions,
            Matters,
            format!(
                "the transaction of {who} has been open for {seconds} s: rows of locks that change often get slower, and a lock that it has checked stays kept"
            ),
            "end it, or its program; `pg_stat_activity` shows what it does",
        );
    }
    if hidden > 0 {
        let risk = format!(
            "not looked at: since when {hidden} transactions of other users have been open"
        );
        let finding = Finding::new(
            Concern::NotChecked,
            Matters,
            risk,
            "type `GRANT pg_read_all_stats TO <user>`",
        );
        return Ok(Some(finding.unlogged()));
    }
    Ok(None)
}

/// No timeout ends one.
fn prepared_transactions(info: Info<'_>, _: &PoolSettings<'_>) -> Judged {
    match setting(info, "prepared")? {
        "" => Ok(None),
        prepared => found(
            Concern::Transactions,
            Harms,
            format!(
                "a prepared transaction has waited for longer than a minute for its end ({prepared}): a lock that it has checked stays kept until then"
            ),
            "type `COMMIT PREPARED` or `ROLLBACK PREPARED` with its name",
        ),
    }
}

/// A pooler in transaction mode keeps what dlock sets from lasting.
fn timeouts(info: Info<'_>, pool: &PoolSettings<'_>) -> Judged {
    let (timeout, isolation) = (
        info.number("statement_timeout")?,
        info.text("default_transaction_isolation")?,
    );
    let needed = pool.command_timeout.as_millis();
    if u128::from(timeout) >= needed && isolation == "read committed" {
        return Ok(None);
    }
    found(
        Concern::Transactions,
        Matters,
        format!(
            "`statement_timeout` is {timeout} ms (0: none) and the isolation `{isolation}`: a statement of dlock may stop all others of its connection, or end before `command_timeout`"
        ),
        &format!(
            "type `ALTER ROLE <user> SET statement_timeout = {needed}; ALTER ROLE <user> SET lock_timeout = 250; ALTER ROLE <user> SET default_transaction_isolation = 'read committed'`"
        ),
    )
}
