//! What each topology refuses and which kinds keep each other out, compared with pages and rustdoc.
//!
//! The truth comes from pools: a request or a setting is refused if it gives `LockError::Config`. A
//! passage says what stands in it in backticks, and nothing else of its text is compared.

use std::collections::BTreeSet;
use std::time::Duration;

use dlock_harness::RedisServer;
use dlock_runtime::{Batch, Config, LockError, LockPool, LockRequest, Refusal, Wait};
use tokio::time::sleep;

use crate::lists::{names, page, rows};
use crate::page::Page;

const CONFIG: &str = "dlock-runtime/src/values/config/mod.rs";
const DURABILITY: &str = "dlock-runtime/src/values/config/durability.rs";
const REQUEST: &str = "dlock-runtime/src/driver/request/mod.rs";
const KIND: &str = "dlock-runtime/src/driver/request/kind/mod.rs";
const POOL: &str = "dlock-runtime/src/driver/pool.rs";
const WRITE: &str = "dlock-runtime/src/driver/guard/write.rs";
const README: &str = "README.md";
const COMPARE: &str = "docs/compare.md";
const PROXIES: &str = "docs/topologies/proxies.md";
const TOPOLOGIES: &str = "docs/topologies/which.md";

const SECOND: Duration = Duration::from_secs(1);
const WRITES: &str = "guarded writes";
const ONCE_PER: &str = "once_per";

type Names = BTreeSet<String>;
type Request = (&'static str, fn(&LockPool) -> LockRequest);
type Setting = (&'static str, fn(Config) -> Config);

/// What a program can ask for, by the attribute's names.
const REQUESTS: [Request; 8] = [
    ("fair", |pool| pool.lock("fair").fair()),
    ("keys", |pool| pool.lock_all(["one", "other"])),
    (ONCE_PER, |pool| pool.lock("once").once_per(SECOND)),
    ("owner", |pool| pool.lock("owner").reentrant().owner("a")),
    ("permits", |pool| pool.lock("permits").permits(2)),
    ("read", |pool| pool.lock("read").read()),
    ("reentrant", |pool| pool.lock("reentrant").reentrant()),
    ("write", |pool| pool.lock("write").write()),
];

/// The settings that some topology refuses.
const SETTINGS: [Setting; 6] = [
    ("counter_per_slot", Config::counter_per_slot),
    ("max_in_flight", |it| it.max_in_flight(1)),
    ("min_aof", |it| it.min_aof(1)),
    ("min_replicas", |it| it.min_replicas(1)),
    ("repair_missing_ttl", |it| it.repair_missing_ttl(SECOND)),
    ("without_scripts", Config::without_scripts),
];

/// The kinds of which a key has one at a time, in the order of the table.
const KINDS: [fn(LockRequest) -> LockRequest; 5] = [
    |it| it,
    LockRequest::read,
    LockRequest::write,
    |it| it.permits(1),
    |it| it.reentrant().owner("a"),
];

/// Whether it was refused; all else works.
fn is_refused<T>(what: &str, answer: Result<T, LockError>) -> bool {
    match answer {
        Ok(_) => false,
        Err(LockError::Config { .. }) => true,
        Err(error) => panic!("{what}: {error:?}"),
    }
}

/// Nothing connects.
async fn refused_settings(config: &Config) -> Names {
    let mut refused = Names::new();
    for (name, set) in SETTINGS {
        let made = LockPool::connect(set(config.clone()).lazy()).await;
        refused.extend(is_refused(name, made).then(|| name.to_owned()));
    }
    refused
}

/// On servers that run, which may take a moment until they vote, or on a busy machine to answer.
async fn refused_requests(config: &Config) -> Names {
    let config = config.clone().connect_timeout(10 * SECOND);
    let pool = LockPool::connect(config.default_wait(30 * SECOND)).await;
    let (pool, mut refused) = (pool.unwrap(), Names::new());
    for (name, request) in REQUESTS {
        let answer = request(&pool).acquire().await;
        refused.extend(is_refused(name, answer).then(|| name.to_owned()));
    }
    let data = pool.lock("data").acquire().await.unwrap();
    let written = data.write(&Batch::new().set("{lock:data}", "1")).await;
    refused.extend(is_refused(WRITES, written).then(|| WRITES.to_owned()));
    refused
}

/// The text of a page or of rustdoc in one line.
fn text(path: &str) -> String {
    let text = std::fs::read_to_string(crate::root().join(path)).unwrap();
    let lines = text.lines().map(|it| it.trim().trim_start_matches("/// "));
    lines.collect::<Vec<_>>().join(" ")
}

/// The names in the passage between two marks.
fn said(path: &str, from: &str, to: &str) -> Option<Names> {
    let text = text(path);
    let (passage, _) = text.split_once(from)?.1.split_once(to)?;
    let writes = passage.contains("guarded write").then_some(WRITES);
    let said = names(passage).into_iter().chain(writes);
    Some(said.map(str::to_owned).collect())
}

/// The settings of [`SETTINGS`] that this server can't have by the table of the guide.
fn in_the_table(scheme: &str) -> Names {
    let all = dlock_runtime::__private::refused();
    let theirs = all.filter(|row| row.starts_with(&format!("| `{scheme}` |")));
    let is_setting = |name: &&str| SETTINGS.iter().any(|(setting, _)| setting == name);
    let settings =
        theirs.filter_map(|row| names(&row).into_iter().find(is_setting).map(str::to_owned));
    settings.collect()
}

/// The last sentence in the rustdoc of this function that says what refuses it; empty if none does.
fn refused_with(source: &str, function: &str) -> String {
    let (before, _) = source.split_once(&format!("fn {function}(")).unwrap();
    let doc = before.rsplit(" pub fn ").next().unwrap();
    let sentence = doc.rsplit_once("Refused with ").map_or("", |it| it.1);
    sentence.split('.').next().unwrap().to_owned()
}

#[tokio::test]
async fn what_a_topology_refuses_is_said_where_it_is_chosen() {
    let servers = [(); 3].map(|()| RedisServer::start());
    let one = Config::new(servers[0].url());
    let nodes = Config::redlock(servers.iter().map(RedisServer::url)).max_ttl(SECOND);
    assert_eq!(refused_settings(&one).await, Names::new());
    assert_eq!(refused_requests(&one).await, Names::new());
    let bare = refused_requests(&one.clone().without_scripts()).await;
    let sharded = refused_settings(&one.counter_per_slot()).await;
    let cluster = refused_settings(&Config::new("redis+cluster://localhost")).await;
    assert_eq!(cluster, in_the_table("redis+cluster://"));
    let quorum = refused_requests(&nodes).await;
    let mut kinds = quorum.clone();
    kinds.retain(|it| it != WRITES && it != ONCE_PER);
    let mut all = quorum.clone();
    let settings = refused_settings(&nodes).await;
    assert_eq!(settings, in_the_table("redlock://"));
    all.extend(settings);

    let mut wrong = Vec::new();
    for (path, from, to, refused) in [
        (CONFIG, "Refused, with the reason: ", ", and nodes", &all),
        (TOPOLOGIES, "; it has no ", " and no queue", &quorum),
        (
            README,
            "(docs/topologies/several-servers.md): no ",
            ")",
            &quorum,
        ),
        (COMPARE, "all kinds but ", ";", &kinds),
        (CONFIG, "you lose:", ": each", &bare),
        (PROXIES, "`reentrant` lock. ", " are a `Config`", &bare),
        (PROXIES, "| refused | ", ":", &sharded),
    ] {
        let said = said(path, from, to);
        if said.as_ref() != Some(refused) {
            wrong.push(format!("{path}, {from:?}: {said:?}, not {refused:?}"));
        }
    }
    for name in REQUESTS.map(|it| it.0).into_iter().chain([WRITES]) {
        let (path, function) = match name {
            "keys" => (POOL, "lock_all"),
            WRITES => (WRITE, "write"),
            ONCE_PER => (REQUEST, ONCE_PER),
            kind => (KIND, kind),
        };
        let said = refused_with(&text(path), function);
        for (refused, word) in [(&quorum, "`redlock://`"), (&bare, "`without_scripts`")] {
            if said.contains(word) != refused.contains(name) {
                wrong.push(format!("{function}: {said:?}, {word}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn a_setting_says_which_topologies_refuse_it() {
    let source = [CONFIG, DURABILITY].map(text).concat();
    for (name, set) in SETTINGS {
        let sentence = refused_with(&source, name);
        for (scheme, rest) in [
            ("memory://", ""),
            ("redis://", "h"),
            ("redis+sentinel://", "h/m"),
            ("redis+cluster://", "h"),
            ("redlock://", "a,b,c"),
        ] {
            let config = Config::new(format!("{scheme}{rest}")).lazy();
            let refused = is_refused(name, LockPool::connect(set(config)).await);
            let is_named = sentence.contains(&format!("`{scheme}`"));
            assert_eq!(is_named, refused, "{name} with {scheme}");
        }
    }
}

/// What a request gets without a wait; with one it has its turn.
async fn answer_to(pool: &LockPool, held: usize, asked: usize) -> &'static str {
    let request = |kind: usize| KINDS[kind](pool.lock("k"));
    let holder = request(held).acquire().await.unwrap();
    let at_once = request(asked).wait(Wait::Once).acquire().await;
    let waiter = tokio::spawn(request(asked).wait(SECOND).acquire());
    sleep(SECOND / 2).await;
    assert_eq!(waiter.is_finished(), at_once.is_ok());
    holder.release().await.unwrap();
    waiter.await.unwrap().unwrap().release().await.unwrap();
    match at_once {
        Ok(_) => "joins",
        Err(LockError::Busy { .. }) => "Busy",
        Err(LockError::Refused {
            reason: Refusal::WrongKind,
            ..
        }) => "WrongKind",
        Err(error) => panic!("{error:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_whom_is_in_the_table() {
    let pages = ["docs/choosing/kinds.md", "docs/choosing/fencing.md"].map(page);
    let head = "| held, asked | exclusive | `read` | `write` | `permits` | `owner` |";
    let has_it = |page: &&Page| page.prose.iter().any(|(_, text)| text == head);
    let rows = rows(pages.iter().find(has_it).expect("the table"), head);
    assert_eq!(rows.len(), KINDS.len());
    let pool = LockPool::connect("memory://").await.unwrap();
    for (held, row) in rows.iter().enumerate() {
        for (asked, said) in row[1..].iter().enumerate() {
            let answer = answer_to(&pool, held, asked).await;
            assert_eq!(said, &[answer], "row {held}, column {asked}");
        }
    }
}
