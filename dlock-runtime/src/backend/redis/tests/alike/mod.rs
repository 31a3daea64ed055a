//! Property test: the pure machine of `policy::server` and the Lua scripts answer alike, for random
//! operations in random order.
//!
//! The machine's time is a number; on the real server, time passes by shortening what is stored
//! there. Real time passes there as well, so what is left may be shorter by the time that the case
//! has taken so far, and never longer. All spans that a case chooses are multiples of 2 s and those
//! of the queue are not, so that no comparison in the scripts depends on those milliseconds. A case
//! that takes too long for that, on a busy machine, is ended early.

pub(super) mod clockwork;
mod data;
mod pair;

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use dlock_harness::cases;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use self::pair::Pair;
use super::lab::{CAP, Lab};

const KEYS: [&str; 2] = ["lock:a", "lock:{b}"];

/// One of two keys, and one of the claims in `pair::people`.
type Who = (usize, usize);

/// Always even.
type Seconds = u64;

#[derive(Clone, Debug)]
enum Op {
    Acquire {
        who: Who,
        lease: Seconds,
        late: bool,
        repair: Option<Seconds>,
    },
    /// Both keys in one `acquire_all`, for claims that also wait for each key alone.
    Together {
        people: [usize; 2],
        lease: Seconds,
        late: bool,
    },
    /// A batch: several releases, then several acquires, of exclusive locks.
    Combined {
        releases: Vec<(Who, Option<Seconds>)>,
        acquires: Vec<(Who, Seconds, bool)>,
    },
    Poll(Who),
    /// Heartbeats of several claims in one command.
    Heartbeats(Vec<Who>),
    Release {
        who: Who,
        keep: Option<Seconds>,
    },
    Cancel {
        who: Who,
        keep: Option<Seconds>,
        over: bool,
    },
    Renew(Vec<(Who, Seconds)>),
    Downgrade(Who, Seconds),
    Holds(Who),
    Read(usize),
    Pass(Seconds),
    /// Set by a client that does not use dlock; `None`: without a time to live.
    Set(Who, Option<Seconds>),
    Del(usize),
    OtherType(usize),
    /// A sorted set that is not ours.
    ForeignSet(usize),
    /// A queue entry that another version wrote; `bool`: with a heartbeat.
    Strange(usize, bool),
    LoseQueue(usize),
}

fn op(people: &'static [usize]) -> impl Strategy<Value = Op> {
    let who = move || (0..2usize, proptest::sample::select(people));
    let seconds = || (1..12u64).prop_map(|half| 2 * half);
    let acquire = (
        who(),
        seconds(),
        proptest::bool::weighted(0.1),
        option::weighted(0.3, seconds()),
    );
    let keep = || option::weighted(0.2, seconds());
    let exclusive = || (0..2usize, 0..5usize);
    let combined = (
        vec((exclusive(), keep()), 0..4),
        vec(
            (exclusive(), seconds(), proptest::bool::weighted(0.1)),
            0..5,
        ),
    );
    let combined = combined.prop_filter("something", |(releases, acquires)| {
        !releases.is_empty() || !acquires.is_empty()
    });
    prop_oneof![
        9 => acquire.prop_map(|(who, lease, late, repair)| Op::Acquire { who, lease, late, repair }),
        2 => ([0..4usize, 0..4usize], seconds(), proptest::bool::weighted(0.1))
            .prop_map(|(people, lease, late)| Op::Together { people, lease, late }),
        5 => combined.prop_map(|(releases, acquires)| Op::Combined { releases, acquires }),
        4 => who().prop_map(Op::Poll),
        4 => vec(who(), 1..8).prop_map(Op::Heartbeats),
        3 => (who(), keep()).prop_map(|(who, keep)| Op::Release { who, keep }),
        3 => (who(), keep(), any::<bool>()).prop_map(|(who, keep, over)| Op::Cancel { who, keep, over }),
        3 => vec((who(), seconds()), 0..6).prop_map(Op::Renew),
        1 => (who(), seconds()).prop_map(|(who, ttl)| Op::Downgrade(who, ttl)),
        1 => who().prop_map(Op::Holds),
        1 => (0..2usize).prop_map(Op::Read),
        4 => prop_oneof![3 => Just(2), 2 => Just(4), 1 => Just(10)].prop_map(Op::Pass),
        1 => ((0..2usize, 0..5usize), option::of(seconds())).prop_map(|(who, px)| Op::Set(who, px)),
        1 => (0..2usize).prop_map(Op::Del),
        1 => any::<bool>().prop_flat_map(|set| (0..2usize).prop_map(move |key| {
            if set { Op::ForeignSet(key) } else { Op::OtherType(key) }
        })),
        1 => (0..2usize, any::<bool>()).prop_map(|(key, beats)| Op::Strange(key, beats)),
        1 => (0..2usize).prop_map(Op::LoseQueue),
    ]
}

#[test]
fn the_scripts_answer_like_the_pure_machine() {
    check(&[0, 1, 2, 3, 4]);
}

#[test]
fn the_scripts_of_readers_and_writers_answer_like_the_pure_machine() {
    check(&[5, 5, 6, 7, 8, 9, 9, 20, 21, 0]);
}

#[test]
fn the_scripts_of_permits_answer_like_the_pure_machine() {
    check(&[10, 10, 11, 11, 12, 13, 13, 14, 22, 0]);
}

#[test]
fn the_scripts_of_owners_answer_like_the_pure_machine() {
    check(&[15, 15, 16, 16, 17, 17, 18, 19, 23, 0]);
}

/// All kinds use the same key.
#[test]
fn the_scripts_of_all_kinds_answer_like_the_pure_machine() {
    check(&[
        0, 0, 1, 2, 3, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 20, 21, 22, 23,
    ]);
}

fn check(people: &'static [usize]) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let lab = runtime.block_on(Lab::new());
    let config = Config {
        cases: cases(300),
        failure_persistence: None,
        max_shrink_iters: 2000,
        ..Config::default()
    };
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let compared = Cell::new(0);
    let checked = TestRunner::new_with_rng(config, rng).run(&vec(op(people), 1..50), |ops| {
        runtime.block_on(async {
            lab.tell::<()>(&["FLUSHALL"]).await;
            lab.link.ping(CAP).await.unwrap();
            lab.heard.take();
        });
        let mut pair = Pair::new(&lab);
        for op in &ops {
            let step = AssertUnwindSafe(|| {
                runtime.block_on(async {
                    pair.step(op).await;
                    pair.compare_all().await;
                });
            });
            let outcome = catch_unwind(step);
            if pair.clockwork.is_useless() {
                break;
            }
            if let Err(difference) = outcome {
                resume_unwind(difference); // the runner catches and shrinks it
            }
            compared.set(compared.get() + 1);
        }
        Ok(())
    });
    if let Err(difference) = checked {
        panic!("{difference}");
    }
    assert!(compared.get() > 500, "only {} operations", compared.get());
}
