//! Judges what a server answered to the questions of a check: what can harm locks, and what to do.
//!
//! `rights` has the commands that the user needs. The answers come from a stranger: a line that is
//! missing or can't be read is reported as not checked, never taken as good. Never in this folder: a
//! question (`link/redis/check` asks), or a change of a setting.

mod database;
pub(crate) mod rights;

use std::fmt::Display;
use std::time::Duration;

use self::rights::{Refused, Why, right};
use crate::values::config::Durability;
use crate::values::error::Reason;
use crate::values::finding::{Concern, Finding, Weight};
use crate::values::node_status::{NodeStanding, NodeStatus};
use crate::values::shown::{NAME_AT_MOST, shown};
use crate::values::slot::SLOTS;
use crate::values::ttl::Ttl;

use Weight::{Harms, Matters};

/// A smaller difference between two wall clocks is no sign that one of them is not synchronised.
const OFFSET_AT_MOST: i128 = 1_000_000;

/// The field of `INFO` that is there only if `min-replicas-to-write` is set; by how much is not
/// shown.
const IN_TIME: &str = "min_slaves_good_slaves";

/// What Redis, Valkey and Redict call the field of `INFO` that says whether it is a cluster node.
const MODES: [&str; 3] = ["redis_mode", "server_mode", "redict_mode"];

/// What a server answered.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    /// The server's name, if it is one of several.
    pub(crate) node: Option<String>,
    /// The sections of `INFO`, one after the other; of PostgreSQL, settings and what else can harm locks.
    pub(crate) info: String,
    /// It is PostgreSQL.
    pub(crate) is_database: bool,
    /// The server's words where it refused one.
    pub(crate) no_info: Option<Reason>,
    pub(crate) refused: Vec<Refused>,
    /// Why the commands inside scripts could not be tried.
    pub(crate) untried: Option<Reason>,
    /// What a node of a cluster says of it.
    pub(crate) cluster_info: Option<String>,
    /// Whether it takes keys of several hash slots in one command; `None`: it did not say.
    pub(crate) takes_several_slots: Option<bool>,
    /// Two servers to which the URL's name leads, if it leads to several.
    pub(crate) several: Option<[String; 2]>,
    pub(crate) pushes: Pushes,
    pub(crate) clock: ClockSeen,
}

/// Whether waiters get pushes over the connection that was checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Pushes {
    #[default]
    Available,
    /// None are asked for: without scripts, nobody publishes grants.
    Unused,
    /// The connection speaks RESP2. `asked_for`: the URL says so.
    Resp2 { asked_for: bool },
    /// The server refused to subscribe it.
    Refused(Reason),
    /// A pooler gives the server's session to others between two transactions.
    #[cfg(feature = "postgres")]
    Pooled,
}

/// What is known of the server's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClockSeen {
    /// By how many ppm its rate differs from ours, at least, if that is more than the margin.
    pub(crate) ppm: Option<i64>,
    /// By how many µs it was set, at least.
    pub(crate) stepped: Option<i64>,
    /// How far it is ahead of this machine's wall clock, µs: at least, and at most.
    pub(crate) ahead: Option<(i128, i128)>,
}

/// The pool's settings that the judgement depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PoolSettings<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) command_timeout: Duration,
    pub(crate) default_ttl: Ttl,
    pub(crate) durability: Durability,
    pub(crate) counter_per_slot: bool,
    /// The server is one of several, of which a quorum decides.
    pub(crate) has_nodes: bool,
}

/// The findings, the worst first.
pub(crate) fn judge(answers: &Answers, pool: &PoolSettings<'_>) -> Vec<Finding> {
    let info = Info {
        text: &answers.info,
    };
    let mut findings = rights::judge(&answers.refused, pool);
    let mut unknown = Vec::new();
    let topics: &[Topic] = if answers.is_database {
        &database::TOPICS
    } else {
        &[mode, version, eviction, replication, persistence]
    };
    for topic in topics {
        match topic(info, pool) {
            Ok(found) => findings.extend(found),
            Err(Missing(field)) => unknown.push(format!("`{field}`")),
        }
    }
    findings.extend(answers.cluster_info.as_deref().and_then(unserved));
    if !findings.iter().any(|it| it.concern() == Concern::Cluster) {
        findings.extend(slots(answers.takes_several_slots, pool));
    }
    findings.extend(answers.several.as_ref().map(several));
    findings.extend(pushes(&answers.pushes, pool));
    findings.extend(clock(answers.clock));
    findings.extend(not_checked(answers, &unknown));
    findings.sort_by_key(Finding::weight); // stable
    findings
}

/// A master of a cluster that can't be reached, or refuses.
pub(crate) fn judge_away(why: &dyn Display) -> Finding {
    let risk = format!("{why}: calls about its locks fail, and nothing else is known about it");
    let advice =
        "start it or mend what it refuses, look at its log and the network, and check again";
    Finding::new(Concern::Unreachable, Harms, risk, advice).unlogged()
}

/// What the nodes of a quorum risk that do not vote: each costs one of the failures that a lock
/// survives.
pub(crate) fn judge_nodes(nodes: &[NodeStatus]) -> impl Iterator<Item = Finding> {
    let voting = nodes
        .iter()
        .filter(|it| it.standing == NodeStanding::Votes)
        .count();
    let spare = voting.checked_sub(nodes.len() / 2 + 1);
    let silent = nodes.iter().filter(|it| it.standing != NodeStanding::Votes);
    silent.map(move |node| {
        let (weight, left) = match spare {
            Some(0) => (Matters, "a lock survives no further failure".to_owned()),
            Some(more) => (Matters, format!("a lock survives {more} more failures")),
            None => (Harms, "too few vote, so that no lock can be had".to_owned()),
        };
        let advice = match node.standing {
            NodeStanding::Quarantined { .. } => {
                "wait; restart the nodes of a quorum one after the other"
            }
            NodeStanding::ClockSet { .. } => {
                "wait; let NTP slew the clocks of the nodes, and set none while they run (chrony: no `makestep` after the start)"
            }
            _ => "start it, or look at its log and the network",
        };
        // Each change of a node has an event of its own.
        let risk = format_args!("{} {}: {left}", node.node, node.standing).to_string();
        Finding::new(Concern::Quorum, weight, risk, advice).unlogged()
    })
}

/// Whether a version such as `6.2.14` is older; `false` for a fork with its own scheme.
pub(crate) fn is_older(version: &str, than: (u32, u32)) -> bool {
    let mut parts = version.split('.').map(str::parse);
    match (parts.next(), parts.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) < than,
        _ => false,
    }
}

/// The text of `INFO`.
#[derive(Clone, Copy)]
struct Info<'a> {
    text: &'a str,
}

/// A field that `INFO` does not have, or not as what it should be.
struct Missing(&'static str);

type Topic = fn(Info<'_>, &PoolSettings<'_>) -> Judged;

type Judged = Result<Option<Finding>, Missing>;

impl<'a> Info<'a> {
    fn find(self, field: &'static str) -> Option<&'a str> {
        let mut lines = self.text.lines();
        lines.find_map(|line| Some(line.strip_prefix(field)?.strip_prefix(':')?.trim()))
    }

    fn text(self, field: &'static str) -> Result<&'a str, Missing> {
        let text = self.find(field).filter(|it| !it.is_empty());
        text.ok_or(Missing(field))
    }

    fn number(self, field: &'static str) -> Result<u64, Missing> {
        self.text(field)?.parse().map_err(|_| Missing(field))
    }

    fn flag(self, field: &'static str) -> Result<bool, Missing> {
        match self.number(field)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Missing(field)),
        }
    }
}

/// The handshake refuses a node of a cluster, if it could ask `HELLO` or `INFO`. With a counter per slot, a
/// proxy may pass on what a node says of itself.
fn mode(info: Info<'_>, pool: &PoolSettings<'_>) -> Judged {
    let mut modes = MODES.into_iter();
    let mode = modes.find_map(|field| info.text(field).ok());
    let is_node = mode.ok_or(Missing(MODES[0]))? == "cluster" && !pool.counter_per_slot;
    Ok(is_node.then(|| {
        Finding::new(
            Concern::Cluster,
            Harms,
            "the server is a node of a cluster, and the URL is one server's: a lock's keys are on several nodes, so calls fail",
            format_args!("begin the URL with `redis+cluster://`; {BEHIND_A_PROXY}"),
        )
    }))
}

/// What can't be read is no finding: a lock of such a slot says so.
fn unserved(cluster: &str) -> Option<Finding> {
    let info = Info { text: cluster };
    let assigned = info.number("cluster_slots_assigned").ok()?;
    let missing = u64::from(SLOTS).checked_sub(assigned)?;
    (missing > 0).then(|| {
        Finding::new(
            Concern::Cluster,
            Harms,
            format_args!("no node serves {missing} of the {SLOTS} hash slots, so their locks can't be had"),
            "type `redis-cli --cluster fix <host>:<port>`, or assign them: `CLUSTER SLOTS` lists the others",
        )
    })
}

const BEHIND_A_PROXY: &str = "if a proxy shards behind this address, set `Config::counter_per_slot()` in all programs that share locks";

fn slots(takes_several: Option<bool>, pool: &PoolSettings<'_>) -> Option<Finding> {
    match (takes_several, pool.counter_per_slot) {
        (Some(false), false) => Some(Finding::new(
            Concern::Cluster,
            Harms,
            "the server refuses keys of several hash slots in one command (`CROSSSLOT`), so no lock is granted",
            BEHIND_A_PROXY,
        )),
        (Some(true), true) => Some(Finding::new(
            Concern::Cluster,
            Matters,
            "`counter_per_slot` is set, and this server takes keys of several hash slots: locks share no commands, which costs it up to three times as much, and programs without the setting draw fencing tokens from another counter",
            "leave `counter_per_slot` out, in all programs that share locks",
        )),
        _ => None,
    }
}

/// The pool warned of it when it noticed.
fn several([one, other]: &[String; 2]) -> Finding {
    Finding::new(
        Concern::Address,
        Harms,
        format_args!("the URL's name leads to several servers, {one} and {other}, so two may hold one lock"),
        "give a name that leads to one server, `redis+sentinel://` or `redis+cluster://`, in all programs",
    )
    .unlogged()
}

/// The handshake refuses one before 6.2, if it could ask `HELLO`.
fn version(info: Info<'_>, _: &PoolSettings<'_>) -> Judged {
    let version = info.text("redis_version")?;
    let named = shown(version, NAME_AT_MOST);
    Ok(if is_older(version, (6, 2)) {
        Some(Finding::new(
            Concern::Version,
            Harms,
            format_args!("the server is redis {named}, older than 6.2: calls fail"),
            "upgrade it",
        ))
    } else if is_older(version, (7, 0)) {
        Some(Finding::new(
            Concern::Version,
            Matters,
            format_args!(
                "redis {named} gives each new user all channels, so that others can read grants and send false ones"
            ),
            "set `acl-pubsub-default resetchannels` in its redis.conf, and type `ACL SETUSER <other user> resetchannels` for each that exists",
        ))
    } else {
        None
    })
}

fn eviction(info: Info<'_>, _: &PoolSettings<'_>) -> Judged {
    let policy = info.text("maxmemory_policy")?;
    if policy == "noeviction" || info.number("maxmemory")? == 0 {
        return Ok(None); // without a limit nothing is evicted
    }
    let policy = shown(policy, NAME_AT_MOST);
    Ok(Some(Finding::new(
        Concern::Eviction,
        Harms,
        format_args!(
            "with `maxmemory-policy {policy}` a server whose memory is full deletes locks that are held, so two may hold one, and records of `once_per`, so a job may run again within its period"
        ),
        "type `CONFIG SET maxmemory-policy noeviction`, then `CONFIG REWRITE`",
    )))
}

fn replication(info: Info<'_>, pool: &PoolSettings<'_>) -> Judged {
    if info.text("role")? != "master" {
        return Ok(Some(Finding::new(
            Concern::Replication,
            Harms,
            "the server is a replica and takes no writes, so calls fail",
            "give the master's address",
        )));
    }
    let replicas = info.number("connected_slaves")?;
    let asked = pool.durability.min_replicas;
    if let Some(asked) = asked.and_then(|asked| u64::try_from(asked).ok())
        && asked > replicas
    {
        return Ok(Some(Finding::new(
            Concern::Replication,
            Harms,
            format_args!(
                "`min_replicas` asks for {asked} replica{} and {replicas} are connected, so no lock is granted or renewed",
                if asked == 1 { "" } else { "s" }
            ),
            "bring the replicas back, or ask for fewer",
        )));
    }
    let in_time = info.find(IN_TIME).map(|_| info.number(IN_TIME));
    Ok(match in_time.transpose()? {
        Some(0) => Some(Finding::new(
            Concern::Replication,
            Harms,
            "`min-replicas-to-write` is set and no replica is in time, so the server refuses all writes: locks are neither granted nor renewed nor released",
            "bring the replicas back, or type `CONFIG SET min-replicas-to-write 0`",
        )),
        // With `min_replicas` such a master grants us nothing.
        None if replicas > 0 && asked.is_none() => Some(Finding::new(
            Concern::Replication,
            Matters, // the default, and often chosen: with it, calls fail while replicas are away
            format_args!(
                "`min-replicas-to-write` is 0 and replicas are connected ({replicas}): a master that is cut off from them keeps granting locks while one of them is promoted, so two may hold one"
            ),
            "type `CONFIG SET min-replicas-to-write 1`, then `CONFIG REWRITE`; locks then end at their deadline while no replica is connected",
        )),
        _ => None,
    })
}

/// Snapshots do not help: a lock that is older than the last one is seldom held any more. With
/// an AOF a server that is shut down loses nothing, whatever `appendfsync` says. One that
/// crashes loses, with `everysec`, at most what was granted in the last two seconds, and short
/// leases have ended before it is up again.
fn persistence(info: Info<'_>, pool: &PoolSettings<'_>) -> Judged {
    let has_aof = info.flag("aof_enabled")?;
    if !has_aof && pool.durability.min_aof.is_some() {
        return Ok(Some(Finding::new(
            Concern::Persistence,
            Harms,
            "`min_aof` asks for an append-only file and the server has none, so no lock is granted or renewed",
            "type `CONFIG SET appendonly yes`, then `CONFIG REWRITE`",
        )));
    }
    if !has_aof && pool.has_nodes {
        return Ok(Some(Finding::new(
            Concern::Persistence,
            Matters,
            "the server has no AOF, so a restart frees its part of all locks: if the next node is restarted before this one votes again, locks that are held may be lost",
            "type `CONFIG SET appendonly yes`, then `CONFIG REWRITE`",
        )));
    }
    let (ttl, renewal) = (pool.default_ttl.get(), pool.default_ttl.get() / 3);
    Ok((!has_aof).then(|| {
        Finding::new(
            Concern::Persistence,
            Matters,
            format_args!(
                "the server has no AOF, so a restart frees all locks: another may hold a lock beside its holder, which notices with `renew` after up to a third of its ttl ({renewal:.0?} by default), else at its deadline ({ttl:?})"
            ),
            "type `CONFIG SET appendonly yes`, then `CONFIG REWRITE`; or check fencing tokens where a second run is damage",
        )
    }))
}

/// Connecting warns of it already.
fn pushes(pushes: &Pushes, pool: &PoolSettings<'_>) -> Option<Finding> {
    let (why, advice) = match pushes {
        Pushes::Available | Pushes::Unused => return None,
        Pushes::Resp2 { asked_for: true } => (
            "the URL asks for RESP2".to_owned(),
            "remove `protocol=resp2` from the URL",
        ),
        Pushes::Resp2 { asked_for: false } => (
            "the server does not know `HELLO 3`".to_owned(),
            "connect past a proxy that does not know RESP3, and remove `rename-command HELLO` from redis.conf",
        ),
        #[cfg(feature = "postgres")]
        Pushes::Pooled => (
            "a pooler in transaction mode stands before PostgreSQL".to_owned(),
            "connect dlock past it, or leave it: dlock needs one connection for each program",
        ),
        Pushes::Refused(said) => {
            if let (Some(why), Some(right)) = (Why::of(&said.to_string()), right("subscribe"))
                && why != Why::Unknown
            {
                let judged = rights::judge(&[Refused { right, why }], pool).pop();
                return judged.map(Finding::unlogged);
            }
            (
                format!("`SUBSCRIBE` is refused ({said})"),
                "connect past a proxy that does not know it",
            )
        }
    };
    let risk = format!("{why}, so waiters get no pushes and poll, by default every 100 ms");
    Some(Finding::new(Concern::Protocol, Matters, risk, advice).unlogged())
}

fn clock(seen: ClockSeen) -> Vec<Finding> {
    const SLEW: &str = "slew both clocks by at most 0.4 % (`ntpd -x`, or chrony with `maxslewrate 4000`), or raise `clock_margin`";
    let mut findings = Vec::new();
    // The pool warned of these when it noticed them.
    if let Some(ppm) = seen.ppm {
        let risk = format!(
            "the server's clock and this machine's differ in rate by at least {} ppm, more than `clock_margin` allows: two may hold a lock",
            ppm.unsigned_abs()
        );
        findings.push(Finding::new(Concern::Clock, Harms, risk, SLEW).unlogged());
    }
    if let Some(micros) = seen.stepped {
        let by = duration(i128::from(micros));
        let (way, end) = if micros > 0 {
            ("forward", "earlier, so that two may hold a lock")
        } else {
            ("back", "later")
        };
        let risk = format!(
            "the server's clock was set {way} by at least {by:.1?}, or another server answers: leases of that time end {end}"
        );
        let advice = "let `ntpd -x` or chrony slew it, with `makestep` at the start only";
        findings.push(Finding::new(Concern::Clock, Harms, risk, advice).unlogged());
    }
    findings.extend(seen.ahead.and_then(offset));
    findings
}

/// Leases do not depend on it, but one of the clocks is wrong and may be set.
fn offset((least, most): (i128, i128)) -> Option<Finding> {
    let (by, side, risk) = if least > OFFSET_AT_MOST {
        (
            least,
            "ahead of",
            "leases end later, and after a loss of data fencing tokens can fall",
        )
    } else if most < -OFFSET_AT_MOST {
        (
            most,
            "behind",
            "leases end earlier, so that two may hold a lock",
        )
    } else {
        return None;
    };
    let by = duration(by);
    let risk = format!(
        "the server's clock is {by:.1?} {side} this machine's: no lock depends on that, but if it is the server's that is wrong and is then set, {risk}"
    );
    let advice = "compare `redis-cli TIME` and `date` with a third clock, and slew the wrong one";
    Some(Finding::new(Concern::Clock, Matters, risk, advice))
}

fn duration(micros: i128) -> Duration {
    let micros = u64::try_from(micros.unsigned_abs()).unwrap_or(u64::MAX);
    Duration::from_micros(micros)
}

fn not_checked(answers: &Answers, unknown: &[String]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut add = |what: String, advice: &str| {
        findings.push(Finding::new(Concern::NotChecked, Matters, what, advice).unlogged());
    };
    if !unknown.is_empty() {
        let unknown = unknown.join(", ");
        match &answers.no_info {
            Some(said) => add(
                format!("not looked at: {unknown}, because `INFO` is refused ({said})"),
                "type `ACL SETUSER <user> +info`, or look with `redis-cli INFO` as another user",
            ),
            None => add(
                format!("not looked at: {unknown}, because the server does not show it"),
                "find out by other means",
            ),
        }
    }
    if let Some(said) = &answers.untried {
        let advice = match Why::of(&said.to_string()) {
            Some(_) => "allow `EVAL` to this user, on the namespace's keys, and check again",
            None => "mend what the server says there, and check again",
        };
        add(
            format!(
                "not looked at: the commands inside scripts, because `EVAL` is refused ({said})"
            ),
            advice,
        );
    }
    findings
}
