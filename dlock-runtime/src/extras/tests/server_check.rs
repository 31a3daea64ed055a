//! What follows from a server's answers, as a table.

use std::time::Duration;

use proptest::prelude::*;

use crate::extras::server_check::rights::{RIGHTS, Refused, Why, right};
use crate::extras::server_check::{Answers, ClockSeen, PoolSettings, Pushes, judge, judge_nodes};
use crate::values::config::Durability;
use crate::values::error::Reason;
use crate::values::finding::{Concern, Finding, Weight};
use crate::values::node_status::{NodeStanding, NodeStatus};

use crate::rules::tests::{ms, ttl};

use Concern::{
    Clock, Cluster, Eviction, NotChecked, Persistence, Protocol, Replication, Rights, Transactions,
    Version,
};
use Weight::{Harms, Matters};

/// What `INFO` says of a server that is set up well.
const GOOD: [(&str, &str); 8] = [
    ("redis_version", "7.0.15"),
    ("redis_mode", "standalone"),
    ("maxmemory", "0"),
    ("maxmemory_policy", "noeviction"),
    ("role", "master"),
    ("connected_slaves", "0"),
    ("aof_enabled", "1"),
    ("aof_last_write_status", "ok"),
];

/// What PostgreSQL says that is set up well.
const GOOD_DATABASE: [(&str, &str); 10] = [
    ("fsync", "on"),
    ("full_page_writes", "on"),
    ("synchronous_commit", "on"),
    ("statement_timeout", "2500"),
    ("idle_in_transaction_session_timeout", "30000"),
    ("transaction_timeout", "0"),
    ("default_transaction_isolation", "read committed"),
    ("oldest_seconds", "2"),
    ("hidden", "0"),
    ("oldest", "process 7"),
];

/// The same of PostgreSQL, which says that nothing is prepared.
fn of_database(other: &[(&str, &str)]) -> Answers {
    let mut answers = of(&GOOD_DATABASE, other);
    if !other.iter().any(|(name, _)| *name == "prepared") {
        answers.info.push_str("prepared:\r\n");
    }
    answers.is_database = true;
    answers
}

/// The same with other lines: an empty value leaves a line out.
fn info(other: &[(&str, &str)]) -> Answers {
    of(&GOOD, other)
}

fn of(good: &[(&str, &str)], other: &[(&str, &str)]) -> Answers {
    let is_other = |field: &str| other.iter().any(|(name, _)| *name == field);
    let good = good.iter().filter(|(name, _)| !is_other(name));
    let lines = good.chain(other).filter(|(_, value)| !value.is_empty());
    let lines = lines.map(|(name, value)| format!("{name}:{value}\r\n"));
    Answers {
        info: format!("# Server\r\n{}", lines.collect::<String>()),
        ..Answers::default()
    }
}

fn found(answers: &Answers) -> Vec<Finding> {
    found_by(answers, false)
}

fn found_by(answers: &Answers, counter_per_slot: bool) -> Vec<Finding> {
    let pool = pool();
    judge(
        answers,
        &PoolSettings {
            counter_per_slot,
            ..pool
        },
    )
}

fn pool() -> PoolSettings<'static> {
    PoolSettings {
        command_timeout: Duration::from_millis(2_500),
        namespace: "lock:",
        default_ttl: ttl(30_000),
        durability: Durability::default(),
        counter_per_slot: false,
        has_nodes: false,
    }
}

/// A restart of one node lets nobody in beside a holder.
#[test]
fn a_node_without_an_aof_can_lose_locks_and_not_their_exclusion() {
    let answers = info(&[("aof_enabled", "0")]);
    let risk = |has_nodes| {
        let pool = PoolSettings {
            has_nodes,
            ..pool()
        };
        judge(&answers, &pool)[0].risk().to_owned()
    };
    assert!(risk(false).contains("another may hold a lock"));
    assert!(risk(true).contains("restarted before this one votes again"));
}

/// Each policy may delete both, because both have a time to live.
#[test]
fn what_evicts_locks_evicts_records_too() {
    for policy in ["allkeys-lru", "volatile-ttl"] {
        let limit = ("maxmemory", "10485760");
        let found = found(&info(&[("maxmemory_policy", policy), limit]));
        let risk = found[0].risk();
        for lost in [
            policy,
            "two may hold one",
            "may run again within its period",
        ] {
            assert!(risk.contains(lost), "{lost}: {risk}");
        }
    }
}

fn concerns(answers: &Answers) -> Vec<(Concern, Weight)> {
    let found = found(answers);
    found.iter().map(|it| (it.concern(), it.weight())).collect()
}

#[test]
fn a_server_that_is_set_up_well_has_no_findings() {
    assert_eq!(found(&info(&[])), []);
    assert_eq!(found(&of_database(&[])), []);
}

#[test]
fn each_topic_of_postgresql_is_judged() {
    let idle = "idle_in_transaction_session_timeout";
    for (lines, expected, says) in [
        (&[("fsync", "off")][..], (Persistence, Harms), "torn"),
        (&[("full_page_writes", "off")], (Persistence, Harms), "torn"),
        (
            &[("synchronous_commit", "off")],
            (Persistence, Matters),
            "0.6 s",
        ),
        (&[(idle, "0")], (Transactions, Matters), "stays open"),
        (
            &[("oldest_seconds", "61")],
            (Transactions, Matters),
            "process 7",
        ),
        (
            &[("hidden", "3")],
            (NotChecked, Matters),
            "3 transactions of other users",
        ),
        (&[("prepared", "'tx'")], (Transactions, Harms), "'tx'"),
        (
            &[("statement_timeout", "0")],
            (Transactions, Matters),
            "statement_timeout",
        ),
        (
            &[("default_transaction_isolation", "serializable")],
            (Transactions, Matters),
            "serializable",
        ),
        (&[("fsync", "")], (NotChecked, Matters), "`fsync`"),
    ] {
        let answers = of_database(lines);
        assert_eq!(concerns(&answers), [expected], "{lines:?}");
        let found = found(&answers);
        assert!(found[0].risk().contains(says), "{found:?}");
    }
    assert_eq!(
        concerns(&of_database(&[
            (idle, "0"),
            ("transaction_timeout", "30000")
        ])),
        []
    );
}

#[test]
fn each_setting_is_judged() {
    let none: [(Concern, Weight); 0] = [];
    let lru = ("maxmemory_policy", "allkeys-lru");
    let full = ("maxmemory", "10485760");
    let two = ("connected_slaves", "2");
    for (lines, expected) in [
        (&[lru, full][..], &[(Eviction, Harms)][..]),
        (
            &[("maxmemory_policy", "volatile-ttl"), full],
            &[(Eviction, Harms)],
        ),
        (&[lru], &none), // without a limit nothing is evicted
        (&[full], &none),
        (&[two], &[(Replication, Matters)]),
        (&[two, ("min_slaves_good_slaves", "2")], &none),
        (&[("min_slaves_good_slaves", "0")], &[(Replication, Harms)]),
        (&[("role", "slave")], &[(Replication, Harms)]),
        (&[("aof_enabled", "0")], &[(Persistence, Matters)]),
        (&[("redis_mode", "cluster")], &[(Cluster, Harms)]),
        (&[("redis_version", "6.0.16")], &[(Version, Harms)]),
        (&[("redis_version", "6.2.0")], &[(Version, Matters)]),
        (&[("redis_version", "8.4.0")], &none),
        (&[("redis_version", "unstable")], &none),
    ] {
        assert_eq!(concerns(&info(lines)), expected, "{lines:?}");
    }
}

#[test]
fn forks_have_other_names_for_the_mode() {
    for field in ["server_mode", "redict_mode"] {
        let of = |mode| info(&[("redis_mode", ""), (field, mode)]);
        assert_eq!(concerns(&of("standalone")), [], "{field}");
        assert_eq!(concerns(&of("cluster")), [(Cluster, Harms)], "{field}");
    }
}

/// A line that is missing or can't be read is never taken as good.
#[test]
fn what_can_t_be_read_is_not_checked() {
    const HUGE: &str = "99999999999999999999999999";
    let full = ("maxmemory_policy", "allkeys-lru");
    for (lines, named) in [
        (&[("maxmemory_policy", "")][..], "`maxmemory_policy`"),
        (&[("maxmemory", HUGE), full], "`maxmemory`"),
        (&[("maxmemory", "-1"), full], "`maxmemory`"),
        (&[("connected_slaves", HUGE)], "`connected_slaves`"),
        (
            &[("min_slaves_good_slaves", "x")],
            "`min_slaves_good_slaves`",
        ),
        (&[("aof_enabled", "2")], "`aof_enabled`"),
        (&[("aof_enabled", "yes")], "`aof_enabled`"),
        (&[("role", " ")], "`role`"),
        (
            &[("redis_mode", ""), ("redis_version", "")],
            "`redis_mode`, `redis_version`",
        ),
    ] {
        let found = found(&info(lines));
        let [finding] = &found[..] else {
            panic!("{lines:?}: {found:?}");
        };
        assert_eq!(finding.concern(), NotChecked, "{lines:?}");
        assert!(
            finding.risk().contains(&format!(": {named}, because")),
            "{finding}"
        );
    }
    let nothing = concerns(&Answers::default());
    assert_eq!(nothing, [(NotChecked, Matters)], "one finding for all");
}

#[test]
fn a_refused_info_is_named_with_the_server_s_words() {
    let answers = Answers {
        no_info: Some(Reason::new("NOPERM: no")),
        ..Answers::default()
    };
    let [finding] = &found(&answers)[..] else {
        panic!();
    };
    assert!(
        finding
            .risk()
            .contains("`aof_enabled`, because `INFO` is refused (NOPERM: no)")
    );
    assert!(finding.advice().contains("ACL SETUSER <user> +info"));
}

/// A cluster that is down refuses scripts, whatever the user may do.
#[test]
fn rights_are_asked_for_only_where_one_is_missing() {
    for (said, advice) in [
        (
            "NOPERM: User ann has no permissions to run the 'eval' command",
            "allow `EVAL` to this user",
        ),
        (
            "ClusterDown: The cluster is down",
            "mend what the server says",
        ),
    ] {
        let answers = Answers {
            untried: Some(Reason::new(said)),
            ..info(&[])
        };
        let [finding] = &found(&answers)[..] else {
            panic!("{said}");
        };
        assert!(finding.risk().contains(said) && finding.advice().starts_with(advice));
    }
    let refused = |why| Answers {
        refused: vec![Refused {
            right: right("waitaof").unwrap(),
            why,
        }],
        ..info(&[])
    };
    let found = found(&refused(Why::Unknown));
    assert!(found[0].advice().contains("Redis 7.2"), "{found:?}");
}

#[test]
fn slots_that_nobody_serves_are_counted() {
    let said = |info: &str| {
        let answers = Answers {
            cluster_info: Some(info.to_owned()),
            ..info_of_a_node()
        };
        found_by(&answers, true)
    };
    for fine in [
        "cluster_slots_assigned:16384",
        "",
        "cluster_slots_assigned:-1",
        "cluster_slots_assigned:99999",
    ] {
        assert_eq!(said(fine), [], "{fine}");
    }
    let found = said("cluster_state:ok\r\ncluster_slots_assigned:16380\r\n");
    let [finding] = &found[..] else {
        panic!("{found:?}");
    };
    assert_eq!((finding.concern(), finding.weight()), (Cluster, Harms));
    assert!(
        finding.risk().starts_with("no node serves 4 of the 16384"),
        "{finding:?}"
    );
}

fn info_of_a_node() -> Answers {
    info(&[("redis_mode", "cluster")])
}

/// A proxy may show a single server, or the node that it passes `INFO` to.
#[test]
fn a_counter_per_slot_is_asked_for_where_it_is_needed_and_only_there() {
    for mode in ["standalone", "cluster"] {
        let asked = |takes_several_slots, counter_per_slot| {
            let answers = Answers {
                takes_several_slots,
                ..info(&[("redis_mode", mode)])
            };
            let found = found_by(&answers, counter_per_slot);
            assert!(found.len() < 2, "{found:?}");
            let of_it = found.into_iter().next();
            of_it.map(|it| (it.concern(), it.weight(), it.advice().to_owned()))
        };
        let (concern, weight, advice) = asked(Some(false), false).unwrap();
        assert_eq!((concern, weight), (Cluster, Harms));
        assert!(
            advice.contains("set `Config::counter_per_slot()`"),
            "{advice}"
        );
        assert_eq!(asked(Some(false), true), None);
        assert_eq!(asked(None, true), None);
        assert_eq!(asked(Some(true), false).is_some(), mode == "cluster");
        let (concern, weight, advice) = asked(Some(true), true).unwrap();
        assert_eq!((concern, weight), (Cluster, Matters));
        assert!(advice.contains("leave `counter_per_slot` out"), "{advice}");
    }
}

fn refused(name: &str, why: Why) -> Refused {
    let right = right(name).unwrap();
    Refused { right, why }
}

#[test]
fn commands_that_cost_the_same_are_one_finding() {
    let answers = Answers {
        refused: ["zmscore", "set", "pttl", "zadd", "pexpire"]
            .map(|name| refused(name, Why::NoCommand))
            .into(),
        ..info(&[])
    };
    let found = found(&answers);
    let lines: Vec<String> = found.iter().map(Finding::to_string).collect();
    let fails = "calls that need it fail";
    assert_eq!(
        lines,
        [
            format!("this user may not call `SET`, `ZADD`: {fails}; type `ACL SETUSER <user> +set +zadd`"),
            format!("this user may not call `PTTL`, `PEXPIRE`: {fails}, and renewed leases are lost at their deadline; type `ACL SETUSER <user> +pttl +pexpire`"),
            "this user may not call `ZMSCORE`: each waiter polls by itself, which costs the server more; type `ACL SETUSER <user> +zmscore`".to_owned(),
        ]
    );
    let concerns = concerns(&answers);
    assert_eq!(
        concerns,
        [(Rights, Harms), (Rights, Harms), (Rights, Matters)]
    );
}

#[test]
fn patterns_and_unknown_commands_have_their_own_advice() {
    for (name, why, weight, advice) in [
        (
            "eval",
            Why::NoPattern,
            Harms,
            "type `ACL SETUSER <user> ~lock:*`",
        ),
        (
            "publish",
            Why::NoPattern,
            Matters,
            "type `ACL SETUSER <user> &lock:@grant:*`",
        ),
        (
            "command|info",
            Why::NoCommand,
            Matters,
            "type `ACL SETUSER <user> +command|info`",
        ),
        (
            "set",
            Why::Unknown,
            Harms,
            "remove `rename-command` from its redis.conf, or connect past the proxy that does not know it",
        ),
    ] {
        let answers = Answers {
            refused: vec![refused(name, why)],
            ..info(&[])
        };
        let [finding] = &found(&answers)[..] else {
            panic!("{name}");
        };
        let seen = (finding.concern(), finding.weight(), finding.advice());
        assert_eq!(seen, (Rights, weight, advice));
    }
}

#[test]
fn the_reason_is_read_in_the_words_of_every_version() {
    for (said, expected) in [
        (
            "NOPERM this user has no permissions to run the 'eval' command",
            Some(Why::NoCommand),
        ),
        (
            "NOPERM: this user has no permissions to run the 'get' command or its subcommand",
            Some(Why::NoCommand),
        ),
        (
            "ERR The user executing the script can't run this command or subcommand",
            Some(Why::NoCommand),
        ),
        (
            "ACL failure in script: User key has no permissions to run the 'zadd' command",
            Some(Why::NoCommand),
        ),
        (
            "NOPERM this user has no permissions to access one of the keys used as arguments",
            Some(Why::NoPattern),
        ),
        (
            "NOPERM No permissions to access a channel",
            Some(Why::NoPattern),
        ),
        (
            "ERR The user executing the script can't access at least one of the keys mentioned in the command arguments",
            Some(Why::NoPattern),
        ),
        (
            "ERR The user executing the script can't publish to the channel mentioned in the command",
            Some(Why::NoPattern),
        ),
        (
            "ERR Unknown Redis command called from script",
            Some(Why::Unknown),
        ),
        (
            "ERR Unknown Redict command called from script script: 2063, on @user_script:1.",
            Some(Why::Unknown),
        ),
        (
            "ERR unknown command 'PING', with args beginning with: ",
            Some(Why::Unknown),
        ),
        ("NOREPLICAS Not enough good replicas to write.", None),
        (
            "OOM command not allowed when used memory > 'maxmemory'.",
            None,
        ),
        ("", None),
    ] {
        assert_eq!(Why::of(said), expected, "{said}");
    }
}

#[test]
fn missing_pushes_are_told_with_their_cause() {
    let no_command = "NOPERM this user has no permissions to run the 'subscribe' command";
    let no_channel = "NOPERM No permissions to access a channel";
    let refused = |said: &str| Pushes::Refused(Reason::new(said));
    for (pushes, concern, advice) in [
        (
            Pushes::Resp2 { asked_for: true },
            Protocol,
            "protocol=resp2",
        ),
        (
            Pushes::Resp2 { asked_for: false },
            Protocol,
            "rename-command HELLO",
        ),
        (
            refused("ERR unknown command 'SUBSCRIBE'"),
            Protocol,
            "past a proxy",
        ),
        (
            refused(no_command),
            Rights,
            "ACL SETUSER <user> +subscribe`",
        ),
        (
            refused(no_channel),
            Rights,
            "ACL SETUSER <user> &lock:@grant:*`",
        ),
    ] {
        let answers = Answers {
            pushes,
            ..info(&[])
        };
        let [finding] = &found(&answers)[..] else {
            panic!("{advice}");
        };
        assert_eq!((finding.concern(), finding.weight()), (concern, Matters));
        assert!(!finding.is_logged(), "connecting warns of it: {finding}");
        assert!(finding.advice().contains(advice), "{finding}");
        assert!(
            finding.risk().contains("poll, by default every 100 ms"),
            "{finding}"
        );
    }
}

#[test]
fn a_clock_is_judged_by_what_is_proved() {
    let second = 1_000_000;
    for (clock, expected) in [
        (ClockSeen::default(), &[][..]),
        (
            ClockSeen {
                ahead: Some((-3 * second, 3 * second)),
                ..ClockSeen::default()
            },
            &[],
        ),
        (
            ClockSeen {
                ahead: Some((second, 5 * second)),
                ..ClockSeen::default()
            },
            &[],
        ),
        (
            ClockSeen {
                ahead: Some((3 * second, 5 * second)),
                ..ClockSeen::default()
            },
            &["3.0s ahead of this machine's", "leases end later"],
        ),
        (
            ClockSeen {
                ahead: Some((-5 * second, -2 * second)),
                ..ClockSeen::default()
            },
            &["2.0s behind this machine's", "two may hold a lock"],
        ),
        (
            ClockSeen {
                ppm: Some(-12_000),
                ..ClockSeen::default()
            },
            &["at least 12000 ppm", "two may hold a lock"],
        ),
        (
            ClockSeen {
                stepped: Some(-1_500_000),
                ..ClockSeen::default()
            },
            &["set back by at least 1.5s", "end later"],
        ),
        (
            ClockSeen {
                stepped: Some(i64::MAX),
                ..ClockSeen::default()
            },
            &["set forward", "two may hold a lock"],
        ),
    ] {
        let answers = Answers { clock, ..info(&[]) };
        let found = found(&answers);
        assert_eq!(found.len(), usize::from(!expected.is_empty()), "{clock:?}");
        for finding in found {
            assert_eq!(finding.concern(), Clock);
            for part in expected {
                assert!(finding.risk().contains(part), "{part}: {finding}");
            }
        }
    }
}

/// A command that a script calls and that is not in the table would not be missed by a check.
#[test]
fn every_command_of_the_scripts_is_tried() {
    let sources = concat!(
        include_str!("../../rules/lua/acquire.lua"),
        include_str!("../../rules/lua/combined.lua"),
        include_str!("../../rules/lua/grant.lua"),
        include_str!("../../rules/lua/heartbeat.lua"),
        include_str!("../../rules/lua/holders.lua"),
        include_str!("../../rules/lua/lock.lua"),
        include_str!("../../rules/lua/prelude.lua"),
        include_str!("../../rules/lua/queue.lua"),
        include_str!("../../rules/lua/release.lua"),
        include_str!("../../rules/lua/renew.lua"),
        include_str!("../../rules/lua/set.lua"),
        include_str!("../../rules/lua/value.lua"),
    );
    let parts = sources.split("('").skip(1);
    let mut commands: Vec<&str> = parts
        .filter_map(|it| Some(it.split_once('\'')?.0))
        .collect();
    commands.retain(|it| it.len() > 2 && it.bytes().all(|it| it.is_ascii_uppercase()));
    commands.sort_unstable();
    commands.dedup();
    assert!(commands.len() > 15, "{commands:?}");
    for command in commands {
        let right = right(&command.to_lowercase()).expect(command);
        let elsewhere = ["time", "info"].contains(&right.name);
        assert!(right.after_key.is_some() || elsewhere, "{command}");
    }
    assert!(
        RIGHTS.iter().all(|it| right(it.name) == Some(it)),
        "no name twice"
    );
}

proptest! {
    /// Whatever a server says, it is judged, in bounded words.
    #[test]
    fn no_answer_is_too_strange(
        lines in prop::collection::vec((0..GOOD.len() + 2, "\\PC{0,20}|[0-9]{0,40}|\\x1b\\[31m.*"), 0..12),
        is_database: bool, said in ".*", ppm: Option<i64>, stepped: Option<i64>, ahead: Option<(i128, i128)>,
    ) {
        let name = |at: usize| GOOD.get(at).map_or("min_slaves_good_slaves", |(name, _)| name);
        let of_database = |at: usize| GOOD_DATABASE.get(at).map_or("oldest", |(name, _)| name);
        let lines = lines.iter().map(|(at, value)| {
            let name = if is_database { of_database(*at) } else { name(*at) };
            format!("{name}:{value}\n")
        });
        let answers = Answers {
            node: None,
            info: lines.collect(),
            is_database,
            no_info: Some(Reason::new(&said)),
            untried: Some(Reason::new(&said)),
            pushes: Pushes::Refused(Reason::new(&said)),
            refused: RIGHTS.iter().map(|right| Refused { right, why: Why::NoPattern }).collect(),
            takes_several_slots: Some(false),
            cluster_info: None,
            several: None,
            clock: ClockSeen { ppm, stepped, ahead },
        };
        for finding in found(&answers) {
            let text = finding.to_string();
            prop_assert!(text.len() < 10_000 && !text.contains(['\n', '\x1b']), "{}", text);
            prop_assert!(!finding.risk().is_empty() && !finding.advice().is_empty());
        }
    }
}

#[test]
fn a_node_that_does_not_vote_costs_a_failure_that_a_lock_survives() {
    let away = || NodeStanding::Away {
        why: "refused".to_owned(),
    };
    let waits = || NodeStanding::Quarantined { rest: ms(1500) };
    let jumped = || NodeStanding::ClockSet { rest: ms(1500) };
    for (silent, weight, said) in [
        (vec![], None, ""),
        (vec![away()], Some(Matters), "survives 1 more"),
        (vec![away(), waits()], Some(Matters), "no further failure"),
        (vec![away(), waits(), jumped()], Some(Harms), "too few vote"),
        (
            vec![jumped()],
            Some(Matters),
            "another 2 s, because its clock was set",
        ),
        (vec![jumped()], Some(Matters), "makestep"),
    ] {
        let votes = (silent.len()..5).map(|_| NodeStanding::Votes);
        let all = silent.iter().cloned().chain(votes);
        let nodes: Vec<_> = all
            .map(|standing| NodeStatus::new("a:1", standing))
            .collect();
        let found: Vec<_> = judge_nodes(&nodes).collect();
        assert_eq!(found.len(), silent.len(), "{said}");
        for finding in &found {
            assert_eq!(Some(finding.weight()), weight, "{finding}");
            assert!(finding.to_string().contains(said), "{finding}");
            assert!(
                !finding.is_logged(),
                "it has an event of its own: {finding}"
            );
        }
    }
}
