//! Tests of the queue on a real server: pushes over the wire, and cases that the random sequences
//! can't reach.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use dlock_harness::{Action, Matcher, Proxy, RedisServer, until};

use super::lab::{
    CAP, FENCES, HOUR, Heard, Lab, acquire, claim, link, listening, plan, token_of, waiter,
};
use crate::link::redis::link::RedisLink;
use crate::link::{Link, Listener};
use crate::rules::commands::{Acquired, Claim, Keep, Polled};
use crate::topology::server::connect::connect;

impl Lab {
    /// A claim of this link in the queue of a held lock.
    async fn queued(&self, key: &str, value: &str) -> Claim {
        let claim = waiter(key, self.link.address().unwrap(), value);
        let answer = self.acquire(&claim).await;
        assert!(matches!(answer, Ok(Acquired::Queued(_))), "{answer:?}");
        claim
    }
}

/// The link's answer to an acquire with a generous `not_after`.
async fn ask(link: &RedisLink, who: &Claim) -> Acquired {
    let command = acquire(who, link.server_time() + HOUR);
    link.acquire(&command, CAP).await.unwrap()
}

#[tokio::test]
async fn a_release_reaches_the_waiter_over_its_own_connection() {
    let lab = Lab::new().await;
    let (theirs, ours) = (Arc::<Heard>::default(), claim("lock:a", "ours"));
    let other = listening(&lab.server.url(), &theirs).await;
    assert_ne!(other.address(), lab.link.address());
    let epoch = lab.granted(&ours).await;
    let waiting = waiter("lock:a", other.address().unwrap(), "theirs");
    assert!(matches!(ask(&other, &waiting).await, Acquired::Queued(_)));

    assert!(lab.link.release(&ours, Keep::NOT, CAP).await.unwrap().found);
    let mut heard = Vec::new();
    until("the waiter hears of it", CAP, async || {
        heard.extend(theirs.take());
        !heard.is_empty()
    })
    .await;
    let [(grant, since)] = &heard[..] else {
        panic!("{heard:?}")
    };
    assert_eq!((&*grant.key, &grant.value), ("lock:a", &waiting.value));
    assert_eq!(grant.lease, Duration::from_secs(3));
    assert!(grant.epoch > epoch);
    assert!(since.is_some(), "its acquire was answered just now");
    assert!(lab.heard.take().is_empty(), "nobody else");
    lab.link.ping(CAP).await.unwrap();
    assert!(lab.heard.take().is_empty());
}

#[tokio::test]
async fn a_hand_over_is_two_commands() {
    let lab = Lab::new().await;
    let ours = claim("lock:a", "ours");
    lab.granted(&ours).await;
    let first = lab.queued("lock:a", "first").await;
    for number in 0..20 {
        lab.queued("lock:a", &format!("{number}")).await;
    }
    lab.link.release(&ours, Keep::NOT, CAP).await.unwrap();
    let scripts =
        async || lab.server.commandstats("evalsha").await + lab.server.commandstats("eval").await;
    let before = scripts().await;
    lab.link.release(&first, Keep::NOT, CAP).await.unwrap();
    assert_eq!(
        scripts().await,
        before + 1,
        "the next one's own release is the other"
    );
    assert_eq!(lab.heard.take().len(), 2);
}

/// The uncontended acquire: TIME, one EXISTS of lock and queue, SET of the counter, which returns
/// its old value, and SET of the lock.
#[tokio::test]
async fn a_free_lock_costs_one_look_at_the_queue() {
    let lab = Lab::new().await;
    let ours = claim("lock:a", "ours");
    lab.granted(&ours).await; // from now on the script is known
    lab.link.release(&ours, Keep::NOT, CAP).await.unwrap();
    lab.server.cmd(&["CONFIG", "RESETSTAT"]).await;
    lab.granted(&ours).await;
    for (command, times) in [
        ("time", 1),
        ("exists", 1),
        ("get", 0),
        ("zrange", 0),
        ("set", 2),
        ("pttl", 0),
        ("zscore", 0),
        ("zrem", 0),
        ("pexpire", 0),
    ] {
        let counted = lab.server.commandstats(command).await;
        assert_eq!(counted, times, "{command}");
    }
}

#[tokio::test]
async fn a_place_whose_heartbeat_was_lost_is_passed_over() {
    let lab = Lab::new().await;
    let ours = claim("lock:a", "ours");
    lab.granted(&ours).await;
    lab.queued("lock:a", "first").await;
    lab.server.cmd(&["DEL", "lock:@a:{lock:a}"]).await;
    lab.queued("lock:a", "second").await;
    lab.link.release(&ours, Keep::NOT, CAP).await.unwrap();
    let value = lab.link.read("lock:a", CAP).await.unwrap();
    assert_eq!(value.as_deref().map(token_of), Some("second"));
}

/// As in the pure machine; the random sequences have fewer waiters.
#[tokio::test]
async fn a_sweep_takes_two_hundred_entries_those_that_lapsed_first() {
    let lab = Lab::new().await;
    let add = "
        redis.call('ZADD', KEYS[1], 0, 'r|strange')
        redis.call('ZADD', KEYS[2], '+inf', 'r|strange')
        for i = 1, 204 do
          redis.call('ZADD', KEYS[1], 1000 - i, 'x||5|' .. i)
          redis.call('ZADD', KEYS[2], i, 'x||5|' .. i)
        end";
    let (waiting, alive) = ("lock:@w:{lock:a}", "lock:@a:{lock:a}");
    lab.server.cmd(&["EVAL", add, "2", waiting, alive]).await;
    let ours = claim("lock:a", "ours");
    assert!(!lab.link.release(&ours, Keep::NOT, CAP).await.unwrap().found);
    for set in [waiting, alive] {
        let left: Vec<String> = lab.server.ask(&["ZRANGE", set, "0", "-1"]).await;
        let mut left: Vec<&str> = left.iter().map(String::as_str).collect();
        left.sort_unstable();
        let last = ["r|strange", "x||5|201", "x||5|202", "x||5|203", "x||5|204"];
        assert_eq!(left, last, "{set}");
    }
    lab.link.release(&ours, Keep::NOT, CAP).await.unwrap();
    assert_eq!(lab.server.ask::<u64>(&["ZCARD", waiting]).await, 1);
}

#[tokio::test]
async fn what_is_left_at_rest_ends_by_itself() {
    let lab = Lab::new().await;
    lab.granted(&claim("lock:a", "ours")).await;
    lab.queued("lock:a", "first").await;
    let keys = [
        "lock:@a:{lock:a}",
        "lock:@fence",
        "lock:@w:{lock:a}",
        "lock:a",
    ];
    assert_eq!(lab.keys().await, keys);
    for key in ["lock:@a:{lock:a}", "lock:@w:{lock:a}", "lock:a"] {
        assert!(lab.server.pttl(key).await > 0, "{key}");
    }
}

#[tokio::test]
async fn a_kept_lock_is_nobodys_and_keeps_its_end() {
    let lab = Lab::new().await;
    let ours = claim("lock:a", "1|x|token||30000|0|0||host|7|f|0|more");
    lab.granted(&ours).await;
    let waiting = lab.queued("lock:a", "first").await;
    let keep = Keep::from(lab.link.server_time(), Duration::from_secs(60));
    assert!(lab.link.release(&ours, keep, CAP).await.unwrap().found);
    let value = lab.link.read("lock:a", CAP).await.unwrap();
    assert_eq!(
        value.as_deref(),
        Some("1|x|-token||30000|0|0||host|7|f|0|more")
    );
    assert!((30_001..=60_000).contains(&lab.server.pttl("lock:a").await));
    assert!(
        !lab.link.release(&ours, Keep::NOT, CAP).await.unwrap().found,
        "again"
    );
    let answer = lab.link.poll(&waiting, CAP).await.unwrap();
    assert!(matches!(answer, Polled::Queued(_)), "{answer:?}");
    assert!(lab.heard.take().is_empty());
}

/// As after a clock that was far ahead.
#[tokio::test]
async fn entries_and_grants_are_numbered_above_a_counter_that_is_ahead() {
    let lab = Lab::new().await;
    let ours = claim("lock:a", "ours");
    lab.granted(&ours).await;
    lab.server.cmd(&["SET", FENCES, "8000000000000000"]).await;
    let mut arrivals = Vec::new();
    for value in ["first", "second"] {
        let entry = lab.queued("lock:a", value).await.value;
        let score: f64 = lab.tell(&["ZSCORE", "lock:@w:{lock:a}", &entry]).await;
        arrivals.push(score - 8e15);
    }
    assert_eq!(arrivals, [1.0, 2.0]);
    lab.link.release(&ours, Keep::NOT, CAP).await.unwrap();
    // An epoch that far above the clock is not believed from a message: the waiter polls.
    assert!(lab.heard.take().is_empty());
    let (_, value) = lab.heard.take_hints().remove(0);
    assert_eq!(token_of(&value), "first");
    let stands: String = lab.tell(&["GET", "lock:a"]).await;
    let drawn: String = lab.tell(&["GET", FENCES]).await;
    assert_eq!((token_of(&stands), &*drawn), ("first", "8000000000000003"));
}

/// The address of a closed connection: nothing is subscribed to it any more.
#[tokio::test]
async fn m18_a_waiter_whose_connection_is_gone_is_passed_over() {
    let lab = Lab::new().await;
    let gone = link(&lab.server.url()).await;
    let ours = claim("lock:a", "ours");
    lab.granted(&ours).await;
    let gone_address = gone.address().unwrap().clone();
    let waiting = waiter("lock:a", &gone_address, "gone");
    assert!(matches!(ask(&gone, &waiting).await, Acquired::Queued(_)));
    drop(gone);
    let channel = gone_address.split_once(';').unwrap().1;
    let channels = ["PUBSUB", "NUMSUB", channel];
    until("the server has seen its end", CAP, async || {
        let (_, subscribers): (String, i64) = lab.server.ask(&channels).await;
        subscribers == 0
    })
    .await;
    lab.queued("lock:a", "next").await;
    assert!(lab.link.release(&ours, Keep::NOT, CAP).await.unwrap().found);
    assert_eq!(token_of(&lab.heard.take()[0].0.value), "next");
    let answer = lab.link.poll(&waiting, CAP).await.unwrap();
    assert!(matches!(answer, Polled::Gone { .. }), "{answer:?}");
}

#[tokio::test]
async fn another_type_is_told_and_left_alone_by_a_poll() {
    let lab = Lab::new().await;
    let ours = claim("lock:a", "ours");
    lab.granted(&ours).await;
    let waiting = lab.queued("lock:a", "first").await;
    lab.server.cmd(&["DEL", "lock:a"]).await;
    lab.server.cmd(&["SADD", "lock:a", "x"]).await;
    assert!(lab.link.poll(&waiting, CAP).await.is_err());
    assert!(
        lab.link
            .cancel(&waiting, Keep::NOT, 0, CAP)
            .await
            .unwrap()
            .found
    );
    assert_eq!(lab.keys().await, ["lock:@fence", "lock:a"]);
}

#[tokio::test]
async fn the_end_of_a_connection_is_heard() {
    let lab = Lab::new().await;
    lab.server.cmd(&["CLIENT", "KILL", "TYPE", "pubsub"]).await;
    until("the listener knows", CAP, async || {
        lab.heard.disconnected.load(Ordering::SeqCst)
    })
    .await;
}

/// A half-open connection, which no error ever reports, is given up after a silence.
#[tokio::test]
async fn the_end_of_a_silent_connection_is_heard() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.addr());
    let heard = Arc::<Heard>::default();
    let mut plan = plan(&proxy.url());
    Arc::make_mut(&mut plan.settings).command_timeout = Duration::from_millis(20);
    let listener: Weak<dyn Listener> = Arc::downgrade(&heard) as Weak<dyn Listener>;
    plan.listener.set(listener).unwrap();
    let link = connect(&plan).await.unwrap();
    proxy.stall();
    until("it counts as dead", CAP, async || {
        let within = Duration::from_millis(20);
        link.ping(within).await.is_err() && !link.connection.is_usable()
    })
    .await;
    assert!(heard.disconnected.load(Ordering::SeqCst));
}

/// Connecting takes as many round trips as without pushes.
#[tokio::test]
async fn the_channel_is_asked_for_before_the_time_is_answered() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.addr());
    let time = proxy.on(Matcher::command("TIME"), Action::HoldReply);
    let channel = proxy.on(Matcher::command("SUBSCRIBE"), Action::Signal);
    let url = proxy.url();
    let connecting = link(&url);
    let answering = async {
        time.seen().await;
        channel.seen().await;
        proxy.release_held();
    };
    let (link, ()) = tokio::join!(connecting, answering);
    assert!(link.address().is_some());
}

#[tokio::test]
async fn resp2_has_no_address_and_its_waiters_poll() {
    let server = RedisServer::start();
    let link = link(&format!("{}?protocol=resp2", server.url())).await;
    assert_eq!(link.address(), None);
    let (ours, waiting) = (claim("lock:a", "ours"), waiter("lock:a", "", "first"));
    assert!(matches!(ask(&link, &ours).await, Acquired::Granted { .. }));
    assert!(matches!(ask(&link, &waiting).await, Acquired::Queued(_)));
    let answer = link.poll(&waiting, CAP).await.unwrap();
    assert!(matches!(answer, Polled::Queued(_)), "{answer:?}");
    link.release(&ours, Keep::NOT, CAP).await.unwrap();
    let answer = link.poll(&waiting, CAP).await.unwrap();
    assert!(matches!(answer, Polled::Yours { .. }), "{answer:?}");
}
