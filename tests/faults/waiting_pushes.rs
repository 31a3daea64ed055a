//! The push that tells a waiter of its grant: it comes, is lost, comes late, twice, too early; and
//! messages that are no grant at all.
//!
//! A push only saves time: without it the next poll finds the grant, and any other message costs
//! nothing.

use std::time::Instant;

use dlock_harness::{Action, until, wait};
use dlock_runtime::LockPool;
use dlock_tests::{Seeded, locks, patient};

use crate::lab::{CAP, LONG, Lab, ON_SERVER, SLACK, acquires, requests};
use crate::waiters::{AT_ONCE, POLL, grants, is_pushed, item, one_waits, turn, waits};
use crate::waiting_full::fill;

/// Also of a server that is out of memory.
#[tokio::test]
async fn a_waiter_gets_a_free_lock_by_push() {
    for is_full in [false, true] {
        let (lab, _pool, _direct, holder, waiter) = one_waits().await;
        if is_full {
            fill(&lab).await;
        }
        let guard = is_pushed(&lab, holder, waiter).await;
        guard.release().await.unwrap();
        lab.until_at_rest().await;
    }
}

/// A turn that a poll finds costs one poll, and there are fewer polls than turns: only those of the
/// second that a busy machine may take.
#[tokio::test]
async fn in_a_quiet_run_turns_come_by_push_also_when_waiters_give_up() {
    let lab = Lab::new();
    let pool = lab.pool_of(patient(lab.proxy.url())).await;
    let polls = lab.proxy.on(requests("poll").every(), Action::Signal);
    let fair = || item(&pool).fair();
    let mut random = Seeded(22);
    let (mut holder, mut turns) = (fair().acquire().await.unwrap(), 0);
    for _ in 0..30 {
        let mut waiters = Vec::new();
        for places in 1..=4 {
            waiters.push(waits(fair()));
            lab.until_queued(places).await;
        }
        let leaves = usize::try_from(random.between(0, 4)).unwrap();
        let (gone, is_late) = (waiters.remove(leaves), random.between(0, 2) == 0);
        if !is_late {
            gone.abort();
        }
        let release = tokio::spawn(holder.release());
        if is_late {
            tokio::task::yield_now().await;
            gone.abort(); // it may be granted, and passes that on
        }
        release.await.unwrap().unwrap();
        drop(gone.await);
        let mut waiters = waiters.into_iter();
        holder = turn(waiters.next().unwrap()).await.guard;
        for waiter in waiters {
            holder.release().await.unwrap();
            holder = turn(waiter).await.guard;
        }
        turns += 3;
    }
    let polls = polls.fired();
    assert!(polls < turns / 2, "{polls} polls for {turns} turns");
}

#[tokio::test]
async fn a_waiter_whose_push_is_lost_gets_the_lock_by_its_next_poll() {
    for is_full in [false, true] {
        let (lab, _pool, _direct, holder, waiter) = one_waits().await;
        if is_full {
            fill(&lab).await;
        }
        let lost = lab.no_pushes();
        let freed = Instant::now();
        holder.release().await.unwrap();
        let granted = lab.value(ON_SERVER).await;
        let turn = turn(waiter).await;
        assert_eq!(lost.fired(), 1);
        let took = turn.at - freed;
        assert!(took < wait::scaled(POLL + SLACK * 2), "took {took:?}");
        let now = lab.value(ON_SERVER).await;
        assert_eq!(now, granted, "by the grant that was made");
        lab.stays(&turn.guard).await;
        turn.guard.release().await.unwrap();
        lab.until_at_rest().await;
    }
}

/// Counterexample M9: if the token were taken for a stray one, it would be cancelled under its
/// holder.
#[tokio::test]
async fn a_push_that_comes_after_the_poll_harms_nobody() {
    let (lab, _pool, _direct, holder, waiter) = one_waits().await;
    let late = lab.proxy.on(grants(), Action::HoldMessage);
    holder.release().await.unwrap();
    late.seen().await;
    let turn = turn(waiter).await;
    lab.proxy.release_held();
    lab.stays(&turn.guard).await;
}

#[tokio::test]
async fn a_push_that_comes_after_the_release_harms_nobody() {
    let (lab, pool, _direct, holder, waiter) = one_waits().await;
    let late = lab.proxy.on(grants(), Action::HoldMessage);
    holder.release().await.unwrap();
    late.seen().await;
    turn(waiter).await.guard.release().await.unwrap();
    let next = item(&pool).acquire().await.unwrap();
    lab.proxy.release_held();
    lab.stays(&next).await;
}

#[tokio::test]
async fn a_push_that_comes_twice_gives_the_lock_to_one() {
    let lab = Lab::new();
    let (pool, direct) = (lab.pool().await, lab.direct().await);
    let holder = item(&direct).acquire().await.unwrap();
    let (first, second) = (lab.queued(&pool).await, waits(item(&pool)));
    let twice = lab.proxy.on(grants(), Action::RepeatMessage);
    holder.release().await.unwrap();
    let first = turn(first).await;
    assert_eq!(twice.fired(), 1);
    lab.stays(&first.guard).await;
    assert!(!second.is_finished());
    first.guard.release().await.unwrap();
    lab.is_its(&turn(second).await.guard).await;
}

#[tokio::test]
async fn a_push_that_overtakes_the_place_in_the_queue_is_heard() {
    let lab = Lab::new();
    let pool = lab.pool_of(lab.config().command_timeout(CAP)).await;
    let holder = item(&lab.direct().await).acquire().await.unwrap();
    let reply = lab.proxy.on(acquires(), Action::HoldReplyAlone);
    let waiter = waits(item(&pool));
    reply.seen().await;
    holder.release().await.unwrap();
    let turn = turn(waiter).await;
    lab.proxy.release_held(); // the answer "queued", for a lock that is held by now
    lab.stays(&turn.guard).await;
    turn.guard.release().await.unwrap();
    lab.until_free().await;
}

/// The acquire's outcome is open, but the grant has told it.
#[tokio::test]
async fn a_push_that_overtakes_a_reply_which_never_comes_is_heard() {
    let lab = Lab::new();
    let pool = lab.pool_of(lab.config().command_timeout(CAP)).await;
    let holder = item(&lab.direct().await).acquire().await.unwrap();
    let reply = lab.proxy.on(acquires(), Action::HoldReplyAlone);
    let waiter = waits(item(&pool));
    reply.seen().await;
    holder.release().await.unwrap();
    let turn = turn(waiter).await;
    lab.proxy.cut_all();
    lab.stays(&turn.guard).await;
    turn.guard.release().await.unwrap();
    lab.until_free().await;
}

/// One of several waiters stops waiting with its grant on the way: the next waiter gets it.
#[tokio::test]
async fn a_push_for_a_waiter_that_has_gone_is_its_neighbours() {
    let lab = Lab::new();
    let (pool, direct) = (lab.pool().await, lab.direct().await);
    let holder = item(&direct).acquire().await.unwrap();
    let (first, second) = (lab.queued(&pool).await, waits(item(&pool)));
    let late = lab.proxy.on(grants(), Action::HoldMessage);
    lab.no_polls();
    holder.release().await.unwrap();
    late.seen().await;
    let granted = lab.value(ON_SERVER).await;
    first.abort();
    first.await.unwrap_err();
    lab.all_passes();
    let turn = turn(second).await;
    assert_eq!(lab.value(ON_SERVER).await, granted);
    lab.stays(&turn.guard).await;
}

#[tokio::test]
async fn a_push_that_nobody_waits_for_any_more_frees_the_lock() {
    let (lab, pool, _direct, holder, waiter) = one_waits().await;
    let late = lab.proxy.on(grants(), Action::HoldMessage);
    let freed = Instant::now();
    holder.release().await.unwrap();
    late.seen().await;
    waiter.abort();
    waiter.await.unwrap_err();
    lab.until_free().await;
    let took = freed.elapsed();
    assert!(took < wait::scaled(AT_ONCE), "it expired: {took:?}");
    lab.proxy.release_held();
    let next = item(&pool).acquire().await.unwrap();
    lab.stays(&next).await;
}

/// Messages that are no grant to the waiter; `%` stands for the number of the message.
const NO_GRANTS: [&str; 13] = [
    "",
    "\n\n\n\n",
    "1|granted\nlock:item",
    "1|granted\nlock:item\n%",
    "1|granted\nlock:item\n1|x|t||1|0|0||h|1|f|1\n1\n1\n1\n",
    "1|granted\nlock:item\n1|x|0123456789abcdef-0123456789abcdef-%||1|0|0||h|1|f|1\n%\n%\n3000\n",
    "1|granted\nlock:item\n1|x|a-1-1||1|0|0||h|1|f|1\n-1\n1e99\n99999999999999999999999999\n",
    "1|granted\nlock:item\nvalue\n18446744073709551615\n18446744073709551615\n18446744073709551615\n",
    "1|granted\nlock:nobody's\nvalue\n%\n%\n%\n",
    "1|granted\nlock:item\nvalue\n1\n1\n1\n1\n",
    "lock:item\nvalue\n1\n1\n1\n",
    "1|evicted\nlock:item\nvalue\n1\n",
    "1|wanted\nlock:item\nvalue\n1\n",
];

/// Counts the commands that reached the server after the messages were received.
#[tokio::test]
async fn ten_thousand_messages_that_are_no_grants_cost_no_command() {
    let lab = Lab::new();
    let pool = lab.pool_of(lab.config().command_timeout(CAP)).await;
    let direct = lab.direct().await;
    let holder = item(&direct).acquire().await.unwrap();
    let waiter = lab.queued(&pool).await;
    let (channel, value) = (lab.channel().await, lab.value(ON_SERVER).await);
    let connections = lab.proxy.accepted();
    let monitor = lab.server.monitor();
    let begun = Instant::now();
    for round in 0..100 {
        let mut messages = redis::pipe();
        for number in 0..100 {
            let text = NO_GRANTS[number % NO_GRANTS.len()].replace('%', &round.to_string());
            messages.cmd("PUBLISH").arg(&channel).arg(text).ignore();
        }
        let mut garbage = redis::cmd("PUBLISH");
        garbage.arg(&channel).arg(&[0xFF, 0x00, b'\n', 0xFE][..]);
        messages.add_command(garbage).ignore();
        let mut connection = lab.server.connect().await;
        messages
            .query_async::<()>(&mut connection)
            .await
            .expect("they are published");
    }
    pool.ping().await.unwrap(); // answered after all of the messages
    let lines = monitor.settled().await;
    let sent = |line: &&String| line.contains("EVAL") && line.contains(ON_SERVER);
    let commands = lines.iter().filter(sent).count();
    let polls = begun.elapsed().as_secs() + 1;
    assert!(
        u64::try_from(commands).unwrap() <= polls,
        "{commands} commands"
    );
    assert_eq!(lab.value(ON_SERVER).await, value);
    let same = lab.channel().await == channel && lab.proxy.accepted() == connections;
    assert!(same, "the connection survives them");
    holder.release().await.unwrap();
    lab.stays(&turn(waiter).await.guard).await;
}

/// The value of a lock that this pool held, and gave back.
async fn value_of_the_past(lab: &Lab, pool: &LockPool) -> String {
    let past = pool.lock("past").acquire().await.unwrap();
    let value = lab.value("lock:past").await.unwrap();
    past.release().await.unwrap();
    value
}

/// A message as the scripts publish it.
async fn granted_now(lab: &Lab, key: &str, value: &str) -> String {
    let micros = locks::time(&lab.server).await;
    format!("1|granted\n{key}\n{value}\n{micros}\n{micros}\n3000\n")
}

/// A grant of this process that no waiter knows is given back: its owner may have gone.
#[tokio::test]
async fn a_push_of_an_own_token_that_nobody_knows_is_cleaned_up() {
    let (lab, pool, _direct, holder, waiter) = one_waits().await;
    let channel = lab.channel().await;
    let place = lab.places().await.remove(0);
    let unknown = value_of_the_past(&lab, &pool).await;
    let long = LONG.as_millis().to_string();
    lab.server
        .cmd(&["SET", "lock:stray", &unknown, "PX", &long])
        .await;
    let grant = granted_now(&lab, "lock:stray", &unknown).await;
    lab.server.cmd(&["PUBLISH", &channel, &grant]).await;
    until("the stray lock is given back", CAP, async || {
        lab.value("lock:stray").await.is_none()
    })
    .await;
    assert_eq!(lab.places().await, [place], "the waiter has its place");
    holder.release().await.unwrap();
    lab.stays(&turn(waiter).await.guard).await;
}

/// faults.md F25: a client that may publish, and has seen one of our values, must not make us send
/// as many commands.
#[tokio::test]
async fn a_storm_of_forged_pushes_costs_few_commands() {
    let lab = Lab::new();
    let config = lab.config().command_timeout(CAP); // ten thousand messages stand before an answer
    let (pool, direct) = (lab.pool_of(config).await, lab.direct().await);
    let holder = item(&direct).acquire().await.unwrap();
    let waiter = lab.queued(&pool).await;
    let channel = lab.channel().await;
    let value = value_of_the_past(&lab, &pool).await;
    let cancels = lab.proxy.on(requests("cancel"), Action::Signal);
    let begun = Instant::now();
    let grant = granted_now(&lab, "lock:stray", &value).await;
    let storm = "for i = 1, 10000 do redis.call('PUBLISH', ARGV[1], ARGV[2]) end";
    let forged = ["EVAL", storm, "0", &channel, &grant];
    lab.server.cmd(&forged).await;
    pool.ping().await.unwrap(); // answered after all of the messages
    let at_most = 2 + begun.elapsed().as_millis() / 50;
    let sent = u128::from(cancels.count());
    assert!(sent >= 1 && sent <= at_most, "{sent}, not {at_most}");
    holder.release().await.unwrap();
    lab.stays(&turn(waiter).await.guard).await;
}

#[tokio::test]
async fn a_held_lock_is_not_cleaned_up_after_a_forged_push() {
    let (lab, _pool, _direct, holder, waiter) = one_waits().await;
    let channel = lab.channel().await;
    holder.release().await.unwrap();
    let turn = turn(waiter).await;
    let value = lab.value(ON_SERVER).await.unwrap();
    let cancels = lab.proxy.on(requests("cancel"), Action::Signal);
    for number in 1..=100 {
        let grant = format!("1|granted\n{ON_SERVER}\n{value}\n{number}\n{number}\n3000\n");
        let heard: u64 = lab.server.ask(&["PUBLISH", &channel, &grant]).await;
        assert_eq!(heard, 1);
    }
    lab.stays(&turn.guard).await;
    assert_eq!(cancels.count(), 0);
}
