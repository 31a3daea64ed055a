//! The wall clock of a minority of the nodes is set, by seconds to years, both ways, and then that of
//! a quorum: two may believe to hold the lock, and the resource never takes the older one's word. A
//! pool that sees a clock jump leaves that node's vote out.

use std::time::Duration;

use dlock_harness::{Clocks, Proxy, RedisServer, until, wait};
use dlock_runtime::{Config, LockError, LockPool, NodeStanding};
use dlock_tests::{KINDS, of_kind, recorded};

use crate::fleet::Fleet;
use crate::nodes::Nodes;
use crate::{CAP, MAX_TTL};

const SHORT: Duration = Duration::from_millis(3);

/// A body during which others look whether the lock is free.
const LONG: Duration = Duration::from_millis(600);

const YEAR: i64 = 365 * 86_400;

fn nodes() -> (Nodes, Clocks) {
    let clocks = Clocks::new(3);
    let nodes = (0..3).map(|nth| clocks.server(nth).start()).collect();
    (Nodes(nodes), clocks)
}

/// The node's time, in seconds.
async fn time(node: &RedisServer) -> i64 {
    let (seconds, _): (i64, i64) = node.ask(&["TIME"]).await;
    seconds
}

/// Steps of these clocks, each followed by more counts. How many counts were refused, and whether
/// two bodies were ever executed at once.
async fn steps(set: &[usize], seconds: &[i64], body: Duration) -> (u64, Result<(), String>) {
    let (nodes, clocks) = nodes();
    let fleet = Fleet::start(nodes, 3, body).await;
    let mut ahead = 0;
    for step in seconds {
        let before = time(&fleet.nodes.0[set[0]]).await;
        for node in set {
            clocks[*node].set(*step);
        }
        fleet
            .progresses(&format!("the clock is {step} s ahead"))
            .await;
        fleet.counts(3).await;
        let after = time(&fleet.nodes.0[set[0]]).await;
        let stepped = after - before - (step - std::mem::replace(&mut ahead, *step));
        assert!((0..60).contains(&stepped), "the clock did not step");
    }
    // A key that was created before a step back stays until the node's clock is there again.
    for clock in clocks.iter() {
        clock.set(*seconds.iter().max().unwrap());
    }
    let outcome = fleet.finish().await;
    outcome.check_fences();
    println!("{} counts, {} refused", outcome.accepted, outcome.refused);
    let exclusive = dlock_harness::check_exclusive(&outcome.intervals);
    (outcome.refused, exclusive)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_nodes_clock_steps() {
    let (_, exclusive) = steps(&[0], &[3600, 0, -7200, 3600, YEAR, -YEAR], SHORT).await;
    println!("two at once: {exclusive:?}");
}

/// Back, no key ends early: nobody may be let in.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_nodes_clock_steps_back_and_nobody_is_let_in() {
    let (refused, exclusive) = steps(&[1], &[-10, -3600, -7200], SHORT).await;
    exclusive.unwrap();
    assert_eq!(refused, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_clocks_of_a_quorum_step() {
    let (_, exclusive) = steps(&[0, 2], &[3600, 7200, 0, 3600], LONG).await;
    println!("two at once: {exclusive:?}");
}

/// The standing of each node, as the pool sees it.
fn standings(pool: &LockPool) -> Vec<NodeStanding> {
    let nodes = pool.status().unwrap().nodes;
    nodes.into_iter().map(|it| it.standing).collect()
}

fn is_set(standing: &NodeStanding) -> bool {
    matches!(standing, NodeStanding::ClockSet { .. })
}

/// Takes the lock and gives it back.
async fn works(pool: &LockPool) {
    let lock = pool.lock("other").wait(CAP).acquire().await.unwrap();
    lock.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_whose_clock_jumps_does_not_vote_for_max_ttl() {
    recorded::record();
    let (nodes, clocks) = nodes();
    nodes.until_voting(MAX_TTL).await;
    let pool = nodes.pool().await;
    let port = format!(":{}", nodes.0[1].port());
    for (times, seconds) in [(1, 5), (2, 0)] {
        works(&pool).await;
        clocks[1].set(seconds);
        until("the jump is seen", CAP, async || {
            works(&pool).await;
            is_set(&standings(&pool)[1])
        })
        .await;
        let found = pool.check().await.unwrap();
        let said = found
            .iter()
            .find(|it| it.to_string().contains("its clock was set"));
        let said = said.unwrap_or_else(|| panic!("{found:?}"));
        assert!(
            !said.is_harmful() && said.to_string().contains("no further failure"),
            "{said}"
        );
        until("it votes again", CAP, async || {
            works(&pool).await;
            standings(&pool) == [const { NodeStanding::Votes }; 3]
        })
        .await;
        until("the log says so", CAP, async || {
            recorded::lines(&["INFO", "a node votes again", &port]).len() == times
        })
        .await;
        let lines = recorded::lines(&["WARN", "a node's clock was set", &port]);
        assert_eq!(lines.len(), times, "{lines:?}");
    }
    for node in [0, 2] {
        let port = format!(":{}", nodes.0[node].port());
        assert_eq!(recorded::lines(&["a node's clock was set", &port]), [""; 0]);
    }
}

/// One holds by two nodes, of which one's clock steps past the end of its lease: that node's vote
/// and the third one's let nobody in who has seen the step.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_step_that_is_seen_lets_no_second_holder_in() {
    let (nodes, clocks) = nodes();
    nodes.until_voting(MAX_TTL).await;
    let wire = Proxy::start(nodes.0[2].addr());
    let urls = [nodes.0[0].url(), nodes.0[1].url(), wire.url()];
    let config = Config::redlock(urls)
        .max_ttl(MAX_TTL)
        .default_ttl(MAX_TTL)
        .command_timeout(Duration::from_millis(300));
    let holds = LockPool::connect(config).await.unwrap();
    // So that a ballot is not late where a clock stepped by less than a second.
    let patient = nodes.config().command_timeout(MAX_TTL);
    let other = LockPool::connect(patient).await.unwrap();
    works(&other).await;
    wire.refuse();
    wire.cut_all();
    let mut ahead = 0;
    for step in [700, 60_000, 700] {
        let held = holds.lock("item").wait(CAP).acquire().await.unwrap();
        until("such a step ends it there", CAP, async || {
            held.remaining() < Duration::from_millis(600)
        })
        .await;
        let busy = other.lock("item").wait(Duration::ZERO).acquire().await;
        assert!(matches!(busy, Err(LockError::Busy { .. })), "{busy:?}");
        ahead += step;
        clocks[0].set_ms(ahead);
        let wait = Duration::from_millis(200);
        let second = other.lock("item").wait(wait).acquire().await;
        assert!(second.is_err() || !held.is_held(), "two hold: {second:?}");
        assert!(is_set(&standings(&other)[0]), "{:?}", standings(&other));
        let next = other.lock("item").wait(CAP).acquire().await.unwrap();
        assert!(!held.is_held(), "two hold");
        assert!(next.fence() > held.fence());
        next.release().await.unwrap();
        until("all vote again", CAP, async || {
            standings(&other) == [const { NodeStanding::Votes }; 3]
        })
        .await;
    }
}

/// As when this machine was suspended and its clock stood still.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clocks_that_all_step_at_once_cost_no_vote() {
    let (nodes, clocks) = nodes();
    nodes.until_voting(MAX_TTL).await;
    // The pool looks at its nodes by itself, too: for it all of them step between two looks.
    let pool = nodes.pool().await;
    for seconds in [3_600, 7_200] {
        works(&pool).await;
        for node in &nodes.0 {
            node.stop_signal();
        }
        for clock in clocks.iter() {
            clock.set(seconds);
        }
        for node in &nodes.0 {
            node.cont();
        }
        works(&pool).await;
        until("each node was heard", CAP, async || {
            works(&pool).await;
            !standings(&pool).iter().any(is_set)
        })
        .await;
        let lock = pool
            .lock("item")
            .wait(Duration::ZERO)
            .acquire()
            .await
            .unwrap();
        lock.release().await.unwrap();
        assert!(
            !standings(&pool).iter().any(is_set),
            "{:?}",
            standings(&pool)
        );
    }
}

/// Clocks are set back by ten minutes, and then a lock with `min_hold` is taken and given back: it is
/// free after that time, though the pool saw these clocks before, and another node dies.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn min_hold_keeps_no_key_for_as_long_as_clocks_were_set_back() {
    const MIN_HOLD: Duration = Duration::from_millis(300);
    const SLACK: Duration = Duration::from_secs(5);
    let rows: [(&[usize], Option<usize>); 2] = [(&[0, 1, 2], None), (&[1], Some(2))];
    for (set, dies) in rows {
        let (nodes, clocks) = nodes();
        nodes.until_voting(MAX_TTL).await;
        let config = nodes.config().default_ttl(MAX_TTL);
        // Of two nodes that are left both have to answer in it, on a busy machine.
        let config = config.command_timeout(Duration::from_secs(1));
        let pool = LockPool::connect(config.clone()).await.unwrap();
        works(&pool).await;
        for node in set {
            nodes.0[*node].stop_signal();
            clocks[*node].set(-600);
        }
        for node in set {
            nodes.0[*node].cont();
        }
        until("all vote", CAP, async || {
            works(&pool).await;
            !standings(&pool).iter().any(is_set)
        })
        .await;
        // By these clocks the nodes were started after now: for a program that connects now they are
        // as nodes that have just started.
        let late = LockPool::connect(config).await.unwrap();
        until("they vote for a pool that comes later", CAP, async || {
            late.lock("late").acquire().await.is_ok()
        })
        .await;
        let kinds = [("x", "x")].into_iter().chain(KINDS);
        let kinds = kinds.filter(|(one, _)| !one.starts_with("p:") && *one != "fair");
        let request = |nth: usize, kind: &str| of_kind(pool.lock(format!("item-{nth}")), kind);
        for (nth, (one, _)) in kinds.clone().enumerate() {
            let held = request(nth, one).wait(CAP).min_hold(MIN_HOLD).acquire();
            held.await.unwrap().release().await.unwrap();
        }
        if let Some(node) = dies {
            nodes.0[node].kill9();
        }
        for (nth, (one, other)) in kinds.enumerate() {
            let next = request(nth, other)
                .wait(wait::scaled(MIN_HOLD + SLACK))
                .acquire();
            let next = next
                .await
                .unwrap_or_else(|error| panic!("{one}, set {set:?}: {error}"));
            next.release().await.unwrap();
        }
    }
}
