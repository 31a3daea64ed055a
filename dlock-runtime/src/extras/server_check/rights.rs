//! The rights that a pool's user needs on a server, and what each missing one costs.
//!
//! `docs/operate/server.md` has the line to type. Invariant: every command of the scripts is in the
//! table (`tests/server_check.rs`).

use super::{Finding, PoolSettings};
use crate::values::finding::{Concern, Weight};

/// A command that the user must be allowed to call.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Right {
    /// As in an ACL rule: `zadd`, `command|info`.
    pub(crate) name: &'static str,
    /// The words after the key in a call that changes nothing if the key does not exist. `None`:
    /// it has no key, or is no command of a script.
    pub(crate) after_key: Option<&'static str>,
    cost: Cost,
}

/// What is lost without the right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cost {
    Calls,
    Renewals,
    Pushes,
    Grants,
    Heartbeats,
    Batches,
    Deletes,
    DeadWaiters,
    LongValues,
    Transactions,
    MovingLocks,
    SlotMaps,
}

/// Why a command was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// The user may not call the command.
    NoCommand,
    /// The user may not use the key or the channel.
    NoPattern,
    /// The server has no such command, or under another name.
    Unknown,
}

/// A command that was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) right: &'static Right,
    pub(crate) why: Why,
}

const fn direct(name: &'static str, cost: Cost) -> Right {
    Right {
        name,
        after_key: None,
        cost,
    }
}

const fn in_script(name: &'static str, after_key: &'static str, cost: Cost) -> Right {
    Right {
        name,
        after_key: Some(after_key),
        cost,
    }
}

/// All rights of locks. Those of guarded writes depend on the batches.
pub(crate) static RIGHTS: [Right; 33] = [
    direct("ping", Cost::Calls),
    direct("command|info", Cost::Deletes),
    direct("info", Cost::DeadWaiters),
    direct("time", Cost::Calls),
    in_script("get", "", Cost::Calls),
    in_script("getrange", "0 0", Cost::LongValues),
    in_script("mget", "", Cost::Batches),
    in_script("exists", "", Cost::Batches),
    in_script("set", "v XX PX 1", Cost::Calls),
    in_script("del", "", Cost::Calls),
    in_script("pttl", "", Cost::Renewals),
    in_script("pexpire", "1", Cost::Renewals),
    direct("eval", Cost::Calls),
    direct("evalsha", Cost::Calls),
    in_script("zadd", "XX 0 m", Cost::Calls),
    in_script("zrem", "m", Cost::Calls),
    in_script("zrange", "0 0", Cost::Calls),
    in_script("zscore", "m", Cost::Calls),
    in_script("zmscore", "m", Cost::Heartbeats),
    in_script("zcard", "", Cost::Calls),
    in_script("zremrangebyscore", "0 0", Cost::Calls),
    in_script("publish", "m", Cost::Grants),
    direct("subscribe", Cost::Pushes),
    // Of these a server has one or none.
    in_script("delex", "IFEQ v", Cost::Deletes),
    in_script("delifeq", "v", Cost::Deletes),
    // Without scripts.
    direct("watch", Cost::Calls),
    direct("unwatch", Cost::Transactions),
    direct("multi", Cost::Calls),
    direct("exec", Cost::Calls),
    // For `min_replicas` and `min_aof`.
    direct("wait", Cost::Calls),
    direct("waitaof", Cost::Calls),
    // At a node of a cluster, where no pool connects without `cluster|slots`.
    direct("asking", Cost::MovingLocks),
    direct("cluster|info", Cost::SlotMaps),
];

pub(crate) fn right(name: &str) -> Option<&'static Right> {
    RIGHTS.iter().find(|it| it.name == name)
}

impl Cost {
    fn text(self) -> &'static str {
        match self {
            Cost::Calls => "calls that need it fail",
            Cost::Renewals => {
                "calls that need it fail, and renewed leases are lost at their deadline"
            }
            Cost::Pushes => "waiters get no pushes and poll, by default every 100 ms",
            Cost::Grants => "waiters find their grant by poll, up to 1 s later",
            Cost::Heartbeats => "each waiter polls by itself, which costs the server more",
            Cost::Batches => "locks that are taken or renewed at once cost the server more",
            Cost::Deletes => "a release deletes by two commands",
            Cost::DeadWaiters => "a grant to a dead waiter keeps its lock for 3 s",
            Cost::LongValues => {
                "a stranger's long value at a lock's key is read whole by each call that meets it"
            }
            Cost::Transactions => "a transaction may be sent twice",
            Cost::MovingLocks => {
                "while a slot moves, its locks that have moved are neither renewed nor taken"
            }
            Cost::SlotMaps => {
                "a node that others have replaced may be believed for a moment about who serves what"
            }
        }
    }

    fn weight(self) -> Weight {
        match self {
            Cost::Calls | Cost::Renewals | Cost::MovingLocks => Weight::Harms,
            _ => Weight::Matters,
        }
    }
}

impl Why {
    /// Reads a server's error; `None`: it is not about rights. Servers from 6.2 to 8 word it
    /// differently: `no permissions to run the 'get' command`, `can't run this command`, `no
    /// permissions to access one of the keys`, `can't access at least one of the keys`, `can't
    /// publish to the channel`, `Unknown Redis command called from script`.
    pub(crate) fn of(said: &str) -> Option<Self> {
        let has = |part: &str| said.contains(part);
        if has("nknown command") || has(" command called from script") {
            Some(Why::Unknown)
        } else if has(" run the '") || has("can't run this command") {
            Some(Why::NoCommand)
        } else if has("permissions to access") || has("can't access") || has("can't publish") {
            Some(Why::NoPattern)
        } else {
            None
        }
    }
}

/// One finding for all commands that were refused for the same reason and cost the same.
pub(super) fn judge(refused: &[Refused], pool: &PoolSettings<'_>) -> Vec<Finding> {
    let mut groups: Vec<(Loss, Vec<&str>)> = Vec::new();
    for it in refused {
        let loss = Loss {
            why: it.why,
            cost: it.right.cost,
        };
        match groups.iter_mut().find(|(known, _)| *known == loss) {
            Some((_, names)) => names.push(it.right.name),
            None => groups.push((loss, vec![it.right.name])),
        }
    }
    let groups = groups.iter();
    groups
        .map(|(loss, names)| loss.finding(names, pool))
        .collect()
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Loss {
    why: Why,
    cost: Cost,
}

impl Loss {
    fn finding(self, names: &[&str], pool: &PoolSettings<'_>) -> Finding {
        let upper = names.iter().map(|it| it.to_uppercase().replace('|', " "));
        let commands = format!("`{}`", upper.collect::<Vec<_>>().join("`, `"));
        let (what, advice) = match self.why {
            Why::NoCommand => (
                format!("this user may not call {commands}"),
                format!("type `ACL SETUSER <user> +{}`", names.join(" +")),
            ),
            Why::NoPattern => {
                let (what, pattern) = self.pattern(pool);
                (
                    format!("this user may not use the {what} `{pattern}` ({commands})"),
                    format!("type `ACL SETUSER <user> {pattern}`"),
                )
            }
            Why::Unknown if names.contains(&"waitaof") => (
                format!("the server does not know {commands}"),
                "it came with Redis 7.2: use such a server, or leave out `min_aof`".to_owned(),
            ),
            Why::Unknown => (
                format!("the server does not know {commands}"),
                "remove `rename-command` from its redis.conf, or connect past the proxy that does not know it".to_owned(),
            ),
        };
        let risk = format!("{what}: {}", self.cost.text());
        Finding::new(Concern::Rights, self.cost.weight(), risk, advice)
    }

    /// What the command was refused, and the rule that allows it.
    fn pattern(self, pool: &PoolSettings<'_>) -> (&'static str, String) {
        match self.cost {
            Cost::Pushes | Cost::Grants => ("channels", format!("&{}@grant:*", pool.namespace)),
            _ => ("keys", format!("~{}*", pool.namespace)),
        }
    }
}
