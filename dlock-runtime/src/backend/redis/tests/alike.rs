//! The pure machine of `policy::server` and the Lua scripts answer alike, whatever happens in which order.
//!
//! Time is the machine's own number; on the real server it passes by shortening each PTTL. Real time passes there as well, so
//! a PTTL may be shorter by what the case has taken so far, and never longer. All spans are multiples of 10 s, so that no
//! comparison of the scripts turns on those milliseconds.

mod pair;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use self::pair::Pair;
use super::lab::Lab;

const KEYS: [&str; 2] = ["lock:a", "lock:b"];

/// One of two keys, one of three values.
type Who = (usize, usize);

/// Tens of seconds.
type Tens = u64;

#[derive(Clone, Debug)]
enum Op {
    Acquire {
        who: Who,
        ttl: Tens,
        late: bool,
        repair: Option<Tens>,
    },
    Release(Who),
    Cancel {
        who: Who,
        over: bool,
    },
    Renew(Vec<(Who, Tens)>),
    Read(usize),
    Pass(Tens),
    /// By somebody who does not use dlock; `None`: without a time to live.
    Set(Who, Option<Tens>),
    Del(usize),
    OtherType(usize),
}

fn op() -> impl Strategy<Value = Op> {
    let who = || (0..2usize, 0..3usize);
    let acquire = (
        who(),
        1..6u64,
        proptest::bool::weighted(0.1),
        option::weighted(0.3, 1..6u64),
    );
    prop_oneof![
        6 => acquire.prop_map(|(who, ttl, late, repair)| Op::Acquire { who, ttl, late, repair }),
        3 => who().prop_map(Op::Release),
        3 => (who(), any::<bool>()).prop_map(|(who, over)| Op::Cancel { who, over }),
        4 => vec((who(), 1..6u64), 0..6).prop_map(Op::Renew),
        1 => (0..2usize).prop_map(Op::Read),
        3 => (1..4u64).prop_map(Op::Pass),
        1 => (who(), prop_oneof![Just(None), (1..6u64).prop_map(Some)]).prop_map(|(who, px)| Op::Set(who, px)),
        1 => (0..2usize).prop_map(Op::Del),
        1 => (0..2usize).prop_map(Op::OtherType),
    ]
}

#[test]
fn the_scripts_answer_like_the_pure_machine() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let lab = runtime.block_on(Lab::new());
    let config = Config {
        cases: 200,
        failure_persistence: None,
        max_shrink_iters: 2000,
        ..Config::default()
    };
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let checked = TestRunner::new_with_rng(config, rng).run(&vec(op(), 1..40), |ops| {
        // A failed assertion is a panic, which the runner catches and shrinks.
        runtime.block_on(async {
            lab.tell::<()>(&["FLUSHALL"]).await;
            let mut pair = Pair::new(&lab);
            for op in &ops {
                pair.step(op).await;
                pair.compare_all().await;
            }
        });
        Ok(())
    });
    if let Err(difference) = checked {
        panic!("{difference}");
    }
}
