//! Property test: the Lua scripts answer like the pure machine of `rules` and leave the same,
//! for random operations in random order. `pair` has both, and compares them; what is done has three
//! columns: `scripts` a server with queues, `scripts/without_scripts` the same by transactions,
//! `nodes` a node of a quorum. `data` does the same for guarded writes in memory.
//!
//! The machine's time is a number; on the real server, time passes by shortening what is stored
//! there (`clockwork`). Real time passes there as well, so what is left may be shorter by the time
//! that the case has taken so far, and never longer. All spans that a case chooses are multiples of
//! 2 s and those of the queue are not, so that no comparison in the scripts depends on those
//! milliseconds. A case that takes too long for that, on a busy machine, is begun again.

mod clockwork;
mod data;
mod epochs;
mod nodes;
mod pair;
mod scripts;
mod witness;

use std::cell::Cell;
use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use proptest::prelude::Strategy;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use tokio::runtime::Runtime;

use self::clockwork::Clockwork;
use super::lab::{CAP, Lab};

/// One of two keys, and one of the column's claims.
type Who = (usize, usize);

/// Always even.
type Seconds = u64;

/// Both servers, with what can be done at them.
trait Alike<Op> {
    /// Before the first operation.
    async fn begin(&mut self) {}

    /// Does it at both, and compares the answers.
    async fn step(&mut self, op: &Op);

    /// Compares what is stored: two operations may answer alike and still leave different state.
    async fn compare(&mut self);

    fn clockwork(&self) -> &Clockwork;
}

/// How often a case is begun that takes too long: what the cases reach must not depend on the machine.
const TRIES: usize = 8;

/// A real server, for one case after the other.
struct Stage {
    runtime: Runtime,
    lab: Lab,
}

impl Stage {
    fn new(lab: impl Future<Output = Lab>) -> Self {
        let runtime = Runtime::new().unwrap();
        let lab = runtime.block_on(lab);
        Self { runtime, lab }
    }

    /// Runs as many random cases.
    fn drive<'a, Op: Debug, A: Alike<Op>>(
        &'a self,
        cases: u32,
        ops: impl Strategy<Value = Vec<Op>>,
        both: impl Fn(&'a Lab) -> A,
    ) {
        let config = Config {
            cases,
            failure_persistence: None,
            max_shrink_iters: 2000,
            ..Config::default()
        };
        let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
        let compared = Cell::new(0);
        let checked = TestRunner::new_with_rng(config, rng).run(&ops, |ops| {
            let mut done = 0;
            for _ in 0..TRIES {
                done = done.max(self.case(&ops, &both));
                if done == ops.len() {
                    break;
                }
            }
            compared.set(compared.get() + done);
            Ok(())
        });
        if let Err(difference) = checked {
            panic!("{difference}");
        }
        assert!(compared.get() > 500, "only {} operations", compared.get());
    }

    /// Runs one case. Returns how many operations were compared: not all if it took too long.
    fn case<'a, Op, A: Alike<Op>>(&'a self, ops: &[Op], both: impl Fn(&'a Lab) -> A) -> usize {
        let Self { runtime, lab } = self;
        runtime.block_on(async {
            lab.tell::<()>(&["FLUSHALL"]).await;
            lab.link.ping(CAP).await.unwrap();
            lab.heard.take();
            lab.heard.take_freed();
        });
        let mut both = both(lab);
        runtime.block_on(both.begin());
        for (at, op) in ops.iter().enumerate() {
            let step = AssertUnwindSafe(|| {
                runtime.block_on(async {
                    both.step(op).await;
                    both.compare().await;
                });
            });
            let outcome = catch_unwind(step);
            if both.clockwork().is_useless() {
                return at;
            }
            if let Err(difference) = outcome {
                resume_unwind(difference); // the runner catches and shrinks it
            }
        }
        ops.len()
    }
}
