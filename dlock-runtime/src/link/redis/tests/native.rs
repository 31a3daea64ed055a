//! Tests of the server's own compare-and-delete. The tests' usual server has no such command; where
//! a test needs one, another command of the server is renamed to its name.

use dlock_harness::RedisServer;
use redis::Value;

use super::lab::{CAP, FENCES, HOUR, Lab, acquire, claim, for_an_hour, link, waiter};
use super::refusals::{RIGHTS, as_user};
use crate::link::Link;
use crate::link::redis::link::RedisLink;
use crate::link::redis::names::Names;
use crate::link::redis::native::{Deletes, Native};
use crate::link::redis::reads::Reads;
use crate::link::redis::{reply, scripts};
use crate::rules::commands::{Acquired, Claim, Keep};

const BOTH: [Native; 2] = [Native::Delex, Native::Delifeq];

fn name(native: Native) -> &'static str {
    match native {
        Native::Delex => "delex",
        Native::Delifeq => "delifeq",
    }
}

/// The native command that the server itself reports.
async fn of(server: &RedisServer) -> Option<Native> {
    for native in BOTH {
        let told: Vec<Value> = server.ask(&["COMMAND", "INFO", name(native)]).await;
        if told != [Value::Nil] {
            return Some(native);
        }
    }
    None
}

/// A server that seems to have the command, because another command is renamed to it. `None`: this
/// server really has one.
async fn pretender(command: &str, native: Native) -> Option<RedisServer> {
    if of(&RedisServer::start()).await.is_some() {
        return None;
    }
    let renamed = ["--rename-command", command, name(native)];
    Some(RedisServer::builder().args(renamed).start())
}

async fn granted(link: &RedisLink, who: &Claim) {
    let command = acquire(who, link.server_time() + HOUR);
    let answer = link.acquire(&command, CAP).await;
    assert!(matches!(answer, Ok(Acquired::Granted { .. })), "{answer:?}");
}

/// Takes the lock and releases it.
async fn cycle(link: &RedisLink) {
    let ours = claim("lock:a", "ours");
    granted(link, &ours).await;
    assert!(link.release(&ours, Keep::NOT, CAP).await.unwrap().found);
}

#[test]
fn the_texts_differ_in_one_call_only() {
    let by_hand = "redis.pcall('GET', KEYS[1]) == ARGV[1] and redis.call('DEL', KEYS[1])";
    let usual = scripts::release(None).text(Reads::Whole);
    assert_eq!(usual.matches(by_hand).count(), 1);
    for (native, call) in [
        (
            Native::Delex,
            "redis.pcall('DELEX', KEYS[1], 'IFEQ', ARGV[1])",
        ),
        (Native::Delifeq, "redis.pcall('DELIFEQ', KEYS[1], ARGV[1])"),
    ] {
        let text = scripts::release(Some(native)).text(Reads::Whole);
        assert_eq!(text, usual.replace(by_hand, call));
    }
}

#[test]
fn only_what_the_server_describes_is_there() {
    let described = || Value::Array(vec![Value::BulkString(b"delex".into()), Value::Int(-2)]);
    let list = |items: &[Value]| Value::Array(items.into());
    for (answer, expected) in [
        (list(&[described(), Value::Nil]), Some(Native::Delex)),
        (list(&[Value::Nil, described()]), Some(Native::Delifeq)),
        (list(&[described(), described()]), Some(Native::Delex)),
        (list(&[Value::Nil, Value::Nil]), None),
        (list(&[list(&[]), list(&[])]), None),
        (list(&[described()]), None),
        (list(&[Value::Nil, Value::Nil, described()]), None),
        (list(&[Value::Int(1), Value::Okay]), None),
        (Value::Okay, None),
        (Value::Nil, None),
    ] {
        assert_eq!(Native::among(&answer), expected, "{answer:?}");
    }
}

#[tokio::test]
async fn a_connection_knows_what_its_server_has() {
    let lab = Lab::new().await;
    assert_eq!(lab.link.connection.deletes.native(), of(&lab.server).await);
    let url = format!("{}?protocol=resp2", lab.server.url());
    let native = link(&url).await.connection.deletes.native();
    assert_eq!(native, lab.link.connection.deletes.native());
}

#[tokio::test]
async fn a_release_deletes_by_the_one_command_or_by_two() {
    let lab = Lab::new().await;
    cycle(&lab.link).await;
    lab.server.cmd(&["CONFIG", "RESETSTAT"]).await;
    cycle(&lab.link).await;
    let by_hand = u64::from(of(&lab.server).await.is_none());
    let native: u64 =
        lab.server.commandstats("delex").await + lab.server.commandstats("delifeq").await;
    assert_eq!(native, 1 - by_hand);
    for command in ["get", "del"] {
        let counted = lab.server.commandstats(command).await;
        assert_eq!(counted, by_hand, "{command}");
    }
    assert_eq!(lab.keys().await, [FENCES]);
}

/// The reply of the release text with a native call that the server may not know.
async fn released_by(native: Native, lab: &Lab, who: &Claim, keep: Keep) -> Value {
    let names = Names::new("lock:", false);
    let of = names.of(&who.key);
    let keys = [
        &who.key,
        &*of.counter,
        &of.queue.text(),
        &of.heartbeats.text(),
    ]
    .map(str::to_owned);
    let keys = keys.each_ref().map(String::as_str);
    let arguments = [
        &*who.value,
        &keep.to_string(),
        lab.link.connection.grant_key.argument(),
    ];
    let script = scripts::release(Some(native));
    lab.link
        .connection
        .script(script, &keys, &arguments, CAP)
        .await
        .unwrap()
        .0
}

/// Tries both commands on every server: it does not matter whether the server has one of them.
#[tokio::test]
async fn a_call_that_the_server_does_not_know_goes_the_long_way() {
    for native in BOTH {
        let lab = Lab::new().await;
        let [ours, theirs, set, kept] = ["ours", "theirs", "set", "kept"]
            .map(|key| claim(&format!("lock:{key}"), "1|x|ours||30000|0|0||host|1|f|0"));
        let found = async |who: &Claim, keep| {
            let answer = released_by(native, &lab, who, keep).await;
            reply::given_back(&answer).unwrap().answer.found
        };
        lab.granted(&ours).await;
        assert!(found(&ours, Keep::NOT).await);
        assert!(!found(&ours, Keep::NOT).await, "nothing is there");
        lab.granted(&claim("lock:theirs", "theirs")).await;
        assert!(!found(&theirs, Keep::NOT).await);
        lab.server.cmd(&["SADD", "lock:set", "ours"]).await;
        assert!(!found(&set, Keep::NOT).await);
        lab.granted(&kept).await;
        assert!(found(&kept, for_an_hour(&lab.link)).await);
        let value = lab.link.read("lock:kept", CAP).await.unwrap();
        assert_eq!(value.as_deref(), Some("1|x|-ours||30000|0|0||host|1|f|0"));
        let left = ["lock:@fence", "lock:kept", "lock:set", "lock:theirs"];
        assert_eq!(lab.keys().await, left);
    }
}

#[tokio::test]
async fn a_waiter_is_granted_the_lock_by_each_text() {
    for native in BOTH {
        let lab = Lab::new().await;
        let ours = claim("lock:a", "ours");
        lab.granted(&ours).await;
        let next = waiter("lock:a", lab.link.address().unwrap(), "next");
        assert!(matches!(lab.acquire(&next).await, Ok(Acquired::Queued(_))));
        let answer = released_by(native, &lab, &ours, Keep::NOT).await;
        assert_eq!(answer, Value::Int(1), "nothing native was called");
        let value = lab.link.read("lock:a", CAP).await.unwrap();
        assert_eq!(value.as_deref(), Some(&*next.value));
    }
}

/// `GETDEL` takes one argument, so every such call is an error: it is made only once.
#[tokio::test]
async fn a_refused_call_is_not_tried_again() {
    let Some(server) = pretender("GETDEL", Native::Delex).await else {
        return;
    };
    let link = link(&server.url()).await;
    assert_eq!(link.connection.deletes.native(), Some(Native::Delex));
    cycle(&link).await;
    assert_eq!(link.connection.deletes.native(), None);
    cycle(&link).await;
    assert_eq!(server.keys().await, [FENCES]);
}

/// `SETNX` on an existing key replies 0: the key was not deleted, and the call was not refused
/// either.
#[tokio::test]
async fn a_call_that_deletes_nothing_goes_the_long_way() {
    let Some(server) = pretender("SETNX", Native::Delifeq).await else {
        return;
    };
    let link = link(&server.url()).await;
    for _ in 0..2 {
        assert_eq!(link.connection.deletes.native(), Some(Native::Delifeq));
        cycle(&link).await;
    }
    assert_eq!(server.keys().await, [FENCES]);
}

#[tokio::test]
async fn a_user_who_may_not_ask_or_not_call_releases_all_the_same() {
    let server = match pretender("GETRANGE", Native::Delex).await {
        Some(server) => server,
        None => RedisServer::start(),
    };
    let may_not_ask = as_user(&server, &RIGHTS).await;
    assert_eq!(may_not_ask.connection.deletes.native(), None);
    cycle(&may_not_ask).await;

    let may_ask = [&RIGHTS[..], &["+command|info"]].concat();
    let link = as_user(&server, &may_ask).await;
    assert!(link.connection.deletes.native().is_some());
    server.cmd(&["ACL", "LOG", "RESET"]).await;
    for _ in 0..3 {
        cycle(&link).await;
        assert_eq!(link.connection.deletes.native(), None);
    }
    let log: Vec<Vec<Value>> = server.ask(&["ACL", "LOG"]).await;
    let counts: Vec<_> = log.iter().map(|entry| &entry[1]).collect();
    assert_eq!(counts, [&Value::Int(1)], "refused once");
}

#[test]
fn the_end_of_a_list_says_that_a_call_was_refused() {
    let deletes = Deletes::by(Some(Native::Delex));
    let list = |numbers: [i64; 4]| Value::Array(numbers.map(Value::Int).into());
    let more = list([1, 0, 1, 0]);
    for reply in [Value::Int(1), Value::Int(0), Value::Nil, more] {
        deletes.answered(&reply);
        assert_eq!(deletes.native(), Some(Native::Delex), "{reply:?}");
    }
    deletes.answered(&list([1, 0, 0, 1]));
    assert_eq!(deletes.native(), None);
}
