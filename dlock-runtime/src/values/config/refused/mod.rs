//! What some servers can't have, with the reasons: settings, kinds of locks, and what is done under
//! one. One table, from which the check of a configuration, the errors of requests and the table of
//! docs/topologies/which.md come.
//!
//! Invariant: a refusal says why, and what to do instead.

#[cfg(test)]
mod tests;

use std::fmt::{self, Display};

use super::{Address, Config, Settings};
use crate::values::kind::Kind;

/// What decides about the locks of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServerKind {
    Memory,
    /// One server, or a master that moves.
    One,
    /// The same, without scripts.
    WithoutScripts,
    Cluster,
    Postgres,
    /// Several servers, of which a quorum decides.
    Several,
}

/// What a request asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum WantedOffer<'a> {
    Lock {
        kind: &'a Kind,
        fair: bool,
        several: bool,
        once: bool,
    },
    /// The records of last runs.
    Records,
    /// Guarded writes.
    Writes,
    /// Ending the hold of one of many holders.
    EvictionOfOne,
}

#[derive(Debug)]
enum Refusable {
    Setting(&'static str),
    SeveralKeys,
    Fair,
    /// A kind with many holders.
    Shared,
    Permits,
    OncePer,
    Writes,
    EvictionOfOne,
}

#[derive(Debug)]
struct RefusedRow {
    by: ServerKind,
    what: Refusable,
    why: &'static str,
    instead: &'static str,
}

use self::Refusable::{
    EvictionOfOne, Fair, OncePer, Permits, Setting, SeveralKeys, Shared, Writes,
};
use self::ServerKind::{Cluster, Memory, One, Postgres, Several, WithoutScripts};

const NO_SERVER: &str = "`memory://` has no server";
const OF_SEVERAL: &str = "it is for several nodes (`redlock://`)";
const OF_REDIS: &str = "it is about a Redis server";
const COUNTS: &str = "the server counts its holders";

const REFUSED: &[RefusedRow] = &[
    setting(Memory, "tls", NO_SERVER),
    setting(Memory, "credentials", NO_SERVER),
    setting(Memory, "connector", NO_SERVER),
    setting(Memory, "min_replicas", NO_SERVER),
    setting(Memory, "min_aof", NO_SERVER),
    setting(Memory, "max_ttl", OF_SEVERAL),
    setting(One, "max_ttl", OF_SEVERAL),
    setting(Cluster, "max_ttl", OF_SEVERAL),
    setting(
        Cluster,
        "without_scripts",
        "transactions over the nodes of a cluster are not built",
    ),
    setting(
        Cluster,
        "counter_per_slot",
        "a cluster has a counter in each slot anyway",
    ),
    setting(
        Cluster,
        "min_replicas",
        "waiting for the replicas of each node is not built",
    ),
    setting(
        Cluster,
        "min_aof",
        "waiting for the files of each node is not built",
    ),
    setting(Postgres, "max_ttl", OF_SEVERAL),
    setting(
        Postgres,
        "connector",
        "streams that the program opens are for Redis so far",
    ),
    setting(Postgres, "max_in_flight", OF_REDIS),
    setting(Postgres, "without_scripts", OF_REDIS),
    setting(Postgres, "counter_per_slot", OF_REDIS),
    setting(
        Postgres,
        "min_replicas",
        "its `synchronous_standby_names` and `?synchronous_commit=` say what a commit waits for",
    ),
    setting(
        Postgres,
        "min_aof",
        "`?synchronous_commit=` says whether a commit waits for the disk",
    ),
    setting(
        Postgres,
        "repair_missing_ttl",
        "only dlock writes into its table, and each hold has an end",
    ),
    row(
        Postgres,
        Writes,
        "a batch has commands of Redis",
        "check the lock in your transaction (`LockGuard::check_in`)",
    ),
    setting(
        Several,
        "repair_missing_ttl",
        "if only some nodes have the key without a time to live, a program may still hold the lock",
    ),
    setting(
        Several,
        "without_scripts",
        "a node draws its epoch and gives its vote in one script",
    ),
    setting(
        Several,
        "counter_per_slot",
        "a node is one server, and a proxy that shards is several",
    ),
    setting(
        Several,
        "max_in_flight",
        "the commands to a node have to keep their order",
    ),
    setting(Several, "min_replicas", "a node has no replicas"),
    setting(
        Several,
        "min_aof",
        "when a node restarts, the lock survives at the other nodes",
    ),
    row(
        Several,
        Fair,
        "no server sees all who wait, so none knows who came first",
        "leave `fair` out: first come is usually first served",
    ),
    row(
        Several,
        Permits,
        "each node counts by itself, so too many holders could each have a quorum",
        "take one of several exclusive locks, `name#1` to `name#k`",
    ),
    row(
        Several,
        OncePer,
        "a record that only some nodes have counts or does not count by which of them vote, and a node that restarts empty votes long before the period is over",
        "use a pool of one server for the job, or a row in a database",
    ),
    row(
        Several,
        Writes,
        "the data would be on one server and the lock on all",
        "let your resource check the lock's `fence`",
    ),
    row(
        WithoutScripts,
        SeveralKeys,
        "taking all keys or none in one step needs a script",
        "take one lock inside the other, everywhere in the same order",
    ),
    row(
        WithoutScripts,
        Fair,
        "a lease that ran out may go to a newcomer",
        "leave `fair` out: waiters still take turns",
    ),
    row(
        WithoutScripts,
        Shared,
        COUNTS,
        "take an exclusive lock (also `reentrant`, without an `owner`)",
    ),
    row(
        WithoutScripts,
        Writes,
        "the server checks the lock and writes in one step",
        "let your resource check the lock's `fence`",
    ),
    row(
        WithoutScripts,
        EvictionOfOne,
        COUNTS,
        "evict it from a program whose pool uses scripts",
    ),
];

const fn setting(by: ServerKind, name: &'static str, why: &'static str) -> RefusedRow {
    row(by, Setting(name), why, "leave it out")
}

const fn row(
    by: ServerKind,
    what: Refusable,
    why: &'static str,
    instead: &'static str,
) -> RefusedRow {
    RefusedRow {
        by,
        what,
        why,
        instead,
    }
}

/// Why a request can't be had: the error that its caller reads.
#[derive(Debug)]
pub(crate) struct RefusedRequest<'a> {
    wanted: WantedOffer<'a>,
    row: &'static RefusedRow,
}

impl ServerKind {
    pub(super) fn of(address: &Address) -> Self {
        match address {
            Address::Memory => Memory,
            Address::Postgres(_) => Postgres,
            Address::Redis(_) => One,
            Address::Cluster(_) => Cluster,
            Address::Redlock(_) => Several,
        }
    }

    /// The settings that are given and can't be had, each with why.
    pub(super) fn refused_settings(self, config: &Config) -> impl Iterator<Item = String> {
        let rows = REFUSED.iter().filter(move |row| row.by == self);
        rows.filter_map(move |row| match row.what {
            Setting(name) if config.gives(name) == Some(true) => {
                let (why, instead) = (row.why, row.instead);
                let with = match self {
                    Cluster if name != "max_ttl" => " with `redis+cluster://`",
                    Several => " with `redlock`",
                    Postgres => " with `postgres://`",
                    _ => "",
                };
                Some(format!("{name}: {why}; {instead}{with}"))
            }
            _ => None,
        })
    }

    /// `None`: it can be had.
    pub(crate) fn refused(self, wanted: WantedOffer<'_>) -> Option<RefusedRequest<'_>> {
        let rows = REFUSED.iter().filter(|row| row.by == self);
        let row = rows.into_iter().find(|row| row.what.is(wanted))?;
        Some(RefusedRequest { wanted, row })
    }

    fn name(self) -> &'static str {
        match self {
            Memory => "`memory://`",
            One => "`redis://`, `redis+sentinel://`",
            WithoutScripts => "`without_scripts`",
            Cluster => "`redis+cluster://`",
            Postgres => "`postgres://`",
            Several => "`redlock://`",
        }
    }
}

impl Config {
    /// Whether this setting of the table is given; `None`: there is no such setting.
    fn gives(&self, setting: &str) -> Option<bool> {
        if self.wrong.iter().any(|(name, _)| *name == setting) {
            return Some(true);
        }
        let Settings {
            max_ttl,
            max_in_flight,
            without_scripts,
            counter_per_slot,
            durability,
            repair_missing_ttl,
            ..
        } = &self.settings;
        Some(match setting {
            "tls" => self.tls.is_given(),
            "credentials" => self.login.is_some(),
            "connector" => self.connector.is_some(),
            "max_ttl" => max_ttl.is_some(),
            "max_in_flight" => max_in_flight.is_some(),
            "without_scripts" => *without_scripts,
            "counter_per_slot" => *counter_per_slot,
            "min_replicas" => durability.min_replicas.is_some(),
            "min_aof" => durability.min_aof.is_some(),
            "repair_missing_ttl" => repair_missing_ttl.is_some(),
            _ => return None,
        })
    }
}

/// The table in the form of the guide: a row for each line, with a server, what it can't have, why,
/// and what to do instead.
pub(crate) fn guide() -> impl Iterator<Item = String> {
    REFUSED.iter().map(|row| {
        let (by, why, instead) = (row.by.name(), row.why, row.instead);
        format!("| {by} | {} | {why} | {instead} |", row.what)
    })
}

impl Refusable {
    fn is(&self, wanted: WantedOffer<'_>) -> bool {
        match (self, wanted) {
            (SeveralKeys, WantedOffer::Lock { several, .. }) => several,
            (Fair, WantedOffer::Lock { fair, .. }) => fair,
            (Shared, WantedOffer::Lock { kind, .. }) => kind.is_shared(),
            (OncePer, WantedOffer::Lock { once, .. }) => once,
            (Permits, WantedOffer::Lock { kind, .. }) => matches!(kind, Kind::Permits { .. }),
            (OncePer, WantedOffer::Records)
            | (Writes, WantedOffer::Writes)
            | (EvictionOfOne, WantedOffer::EvictionOfOne) => true,
            _ => false,
        }
    }
}

impl Display for Refusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Setting(name) => write!(f, "`{name}`"),
            SeveralKeys => f.write_str("a lock of several keys"),
            Fair => f.write_str("`fair`"),
            Shared => f.write_str("a lock with many holders"),
            Permits => f.write_str("a lock with permits"),
            OncePer => f.write_str("`once_per`"),
            Writes => f.write_str("a guarded write"),
            EvictionOfOne => f.write_str("evicting one of many holders"),
        }
    }
}

impl Display for RefusedRequest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RefusedRow {
            by,
            what,
            why,
            instead,
        } = self.row;
        match (what, self.wanted) {
            (Shared, WantedOffer::Lock { kind, .. }) => kind.fmt(f),
            _ => what.fmt(f),
        }?;
        match by {
            WithoutScripts => write!(
                f,
                " needs scripts, and this pool is `without_scripts`: {why}; use a server that runs scripts, or {instead}"
            ),
            Postgres => write!(
                f,
                " can't be had in PostgreSQL (`postgres://`): {why}; {instead}"
            ),
            _ => write!(
                f,
                " can't be had of several servers (`redlock://`): {why}; {instead}"
            ),
        }
    }
}
