//! Which nodes do not vote because their clock was set: a table of what happens to clocks, and that
//! no network and no slewed clock ever looks like one.

use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::counting::{id, nodes};
use crate::client::clock_watch::ClockAnswer;
use crate::client::quorum::jumps::Jumps;
use crate::rules::tests::at;
use crate::values::moment::Moment;
use crate::values::ttl::Margin;

const MAX_TTL: Duration = Duration::from_secs(60);

/// Some nodes' clocks, and what a client makes of them; times in ms of the client's clock.
struct World {
    /// By how much each clock is ahead, ms.
    ahead: Vec<i64>,
    jumps: Jumps,
}

impl World {
    fn new(number: usize) -> Self {
        Self {
            ahead: (0..9).map(|nth| 1_700_000_000_000 + nth * 77_777).collect(),
            jumps: Jumps::new(nodes(number), MAX_TTL, Margin::DEFAULT),
        }
    }

    fn set(&mut self, node: usize, by: i64) {
        self.ahead[node] += by;
    }

    /// The client's clock stands still for so long, and the others go on.
    fn stand_still(&mut self, by: i64) {
        self.ahead.iter_mut().for_each(|ahead| *ahead += by);
    }

    fn answers(&mut self, node: usize, now: u64, (there, back): (u64, u64)) {
        let time = u64::try_from(self.ahead[node]).unwrap() + now;
        let answer = ClockAnswer {
            sent: at(now - there),
            heard: at(now + back),
            time: time * 1000,
        };
        self.jumps.hear(id(node), answer);
    }

    /// All nodes among these answer at once.
    fn all(&mut self, among: &[usize], now: u64) {
        for node in among {
            self.answers(*node, now, (1, 1));
        }
    }

    /// The nodes that do not vote.
    fn silent(&self, now: u64) -> Vec<usize> {
        let is_silent = |node: &usize| !self.jumps.rest(id(*node), at(now)).is_zero();
        (0..9).filter(is_silent).collect()
    }
}

#[test]
fn a_node_whose_clock_was_set_does_not_vote_for_max_ttl() {
    for by in [150, 3_600_000, -150, -3_600_000] {
        let mut world = World::new(3);
        world.all(&[0, 1, 2], 1_000);
        world.all(&[0, 1, 2], 1_500);
        world.set(1, by);
        assert_eq!(world.silent(1_900), [0; 0]);
        world.all(&[0, 1, 2], 2_000);
        assert_eq!(world.silent(2_001), [1], "{by}");
        assert_eq!(world.jumps.rest(id(1), at(2_001)), MAX_TTL, "{by}");
        world.all(&[0, 1, 2], 60_000);
        assert_eq!(world.silent(62_000), [1], "{by}");
        assert_eq!(world.silent(62_001), [0; 0], "{by}");
    }
}

/// What is so little that the margin of a short lease covers it, or could be a slewed clock.
#[test]
fn a_small_adjustment_is_no_jump() {
    for (by, after) in [
        (17, 1),
        (-17, 1),
        (100, 1_000),
        (-100, 1_000),
        (2_900, 30_000),
        (-2_900, 30_000),
    ] {
        let mut world = World::new(3);
        world.all(&[0, 1, 2], 1_000);
        world.set(1, by);
        world.all(&[0, 1, 2], 1_000 + after);
        assert_eq!(world.silent(2_000 + after), [0; 0], "{by} ms in {after} ms");
    }
}

/// What the way of an answer may explain is seen with the next answer that is quick.
#[test]
fn a_slow_answer_proves_as_much_as_it_can() {
    for (by, slow, is_seen) in [
        (2_000, (5_000, 3), true),
        (2_000, (3, 5_000), false), // it may have been given just now
        (-2_000, (3, 5_000), true),
        (-2_000, (5_000, 3), false), // it may have been given at once
    ] {
        let mut world = World::new(3);
        world.all(&[0, 1, 2], 10_000);
        world.set(1, by);
        world.answers(1, 15_100, slow);
        let silent = if is_seen { vec![1] } else { Vec::new() };
        assert_eq!(world.silent(20_200), silent, "{by} {slow:?}");
        world.answers(1, 20_300, (1, 1));
        assert_eq!(world.silent(20_400), [1], "{by} {slow:?}");
    }
}

/// A program's clock may stand still while its machine is suspended: it loses no vote.
#[test]
fn our_own_clock_that_stood_still_costs_no_vote() {
    for (number, order) in [
        (3, &[0, 2, 1][..]),
        (3, &[1, 2]),
        (5, &[4, 0, 2, 1, 3]),
        (5, &[3, 1, 0]),
    ] {
        let all: Vec<_> = (0..number).collect();
        let mut world = World::new(number);
        for (nth, node) in all.iter().enumerate() {
            world.answers(*node, 1_000 + 700 * u64::try_from(nth).unwrap(), (1, 1));
        }
        world.stand_still(3_600_000);
        let quorum = number / 2 + 1;
        for (nth, node) in order.iter().enumerate() {
            world.answers(*node, 6_000 + 10 * u64::try_from(nth).unwrap(), (1, 2));
            let doubted: Vec<_> = order[..=nth].to_vec();
            let mut expected = if nth + 1 < quorum {
                doubted
            } else {
                Vec::new()
            };
            expected.sort_unstable();
            assert_eq!(world.silent(6_100), expected, "{order:?}, {nth}");
        }
        world.all(&all, 8_000);
        assert_eq!(world.silent(8_100), [0; 0], "{order:?}");
        // And the next real jump counts.
        world.set(0, 5_000);
        world.all(&all, 9_000);
        assert_eq!(world.silent(9_100), [0], "{order:?}");
    }
}

/// Alike is one time and one amount: clocks that are set one after the other, or differently, are
/// not our clock; and a jump before ours is not forgiven with it.
#[test]
fn jumps_that_differ_are_the_nodes_own() {
    let mut world = World::new(3);
    world.all(&[0, 1, 2], 1_000);
    world.set(0, 10_000);
    world.all(&[0, 1, 2], 2_000);
    world.all(&[0, 1, 2], 2_500);
    world.set(1, 10_000);
    world.all(&[0, 1, 2], 3_000);
    assert_eq!(world.silent(3_100), [0, 1], "one after the other");

    let mut world = World::new(3);
    world.all(&[0, 1, 2], 1_000);
    world.set(0, 10_000);
    world.set(1, -10_000);
    world.set(2, 700);
    world.all(&[0, 1, 2], 2_000);
    assert_eq!(world.silent(2_100), [0, 1, 2], "by different amounts");

    let mut world = World::new(3);
    world.all(&[0, 1, 2], 1_000);
    world.set(0, 10_000);
    world.all(&[0, 1, 2], 2_000);
    world.stand_still(5_000);
    world.all(&[0, 1, 2], 3_000);
    assert_eq!(world.silent(3_100), [0], "its own, then ours");
}

#[test]
fn what_a_node_says_may_be_anything() {
    for time in [0, 1, u64::MAX / 2, u64::MAX] {
        let mut world = World::new(3);
        for (sent, heard, time) in [
            (at(0), at(0), time),
            (at(5), at(1), u64::MAX - time),
            (Moment::NEVER, Moment::NEVER, time),
            (at(0), Moment::NEVER, 0),
            (at(7), at(8), time),
        ] {
            world.jumps.hear(id(1), ClockAnswer { sent, heard, time });
            world.jumps.hear(id(8), ClockAnswer { sent, heard, time });
        }
        let _ = world.silent(10);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(20), failure_persistence: None, ..ProptestConfig::default() })]

    /// Answers of several connections, with any delays, in the order in which they arrive.
    #[test]
    fn no_delay_and_no_slewing_looks_like_a_jump(
        ppm in -90_000_i64..=90_000,
        answers in prop::collection::vec((0_u64..40_000, 0_u64..3_000, 0_u64..30_000), 1..80),
    ) {
        let mut world = World::new(3);
        let base = 1_700_000_000_000_000_i64;
        let (mut now, mut heard) = (40_000, Vec::new());
        for (pause, there, back) in answers {
            now += pause;
            heard.push((now + back, now, there));
        }
        heard.sort_unstable();
        for (heard, now, there) in heard {
            let passed = i64::try_from(now).unwrap() * 1_000;
            let time = u64::try_from(base + passed + passed / 1_000 * ppm / 1_000).unwrap();
            let answer = ClockAnswer { sent: at(now - there), heard: at(heard), time };
            world.jumps.hear(id(0), answer);
            prop_assert_eq!(world.silent(now), Vec::<usize>::new());
        }
    }

    /// With an answer each second, none of which took longer than 20 ms.
    #[test]
    fn a_jump_of_a_quarter_of_a_second_is_found(
        by in 250_i64..10_000_000,
        back in any::<bool>(),
        delays in prop::collection::vec((0_u64..10, 0_u64..10), 12),
        ppm in -5_000_i64..5_000,
    ) {
        let mut world = World::new(3);
        for (second, delays) in (1_u64..).zip(&delays) {
            if second == 10 {
                world.set(2, if back { -by } else { by });
            }
            world.set(2, ppm / 1_000);
            world.answers(2, second * 1_000, *delays);
        }
        prop_assert_eq!(world.silent(13_000), vec![2]);
    }
}
