//! Several exclusive locks in one step, at its boundaries: all of them for their whole lease, or
//! none.

use std::time::Duration;

use super::world::{World, at_address, name, once};
use super::{MS, NOW};
use crate::rules::commands::{Acquire, AcquiredAll, Busy, Claim, Left};
use crate::values::ttl::Ttl;

/// The claim at another key. Values at different keys may be equal.
fn at_key(key: &str, claim: Claim) -> Claim {
    Claim {
        key: key.into(),
        ..claim
    }
}

/// Each key for this many seconds, by one caller.
fn commands(keys: &[(&str, u64)]) -> Vec<Acquire> {
    let command = |(key, seconds): &(&str, u64)| Acquire {
        claim: at_key(key, once("ours")),
        lease: Ttl::new(Duration::from_secs(*seconds)).unwrap(),
        not_after: u64::MAX,
        repair_missing_ttl: None,
    };
    keys.iter().map(command).collect()
}

impl World {
    fn acquire_all(&mut self, commands: &[Acquire]) -> AcquiredAll {
        self.server.acquire_all(commands, self.time, &mut self.wire)
    }

    /// Their epochs; none of the locks was held before.
    #[track_caller]
    fn all_taken(&mut self, commands: &[Acquire]) -> Vec<u64> {
        match self.acquire_all(commands) {
            AcquiredAll::All {
                epochs, left: None, ..
            } => epochs,
            other => panic!("not taken: {other:?}"),
        }
    }

    /// The seconds that each of these keys has left, whoever holds it.
    fn seconds_left<const N: usize>(&self, keys: [&str; N]) -> [u64; N] {
        keys.map(|key| {
            let until = self.server.expires(key).unwrap_or(self.time);
            (until - self.time) / MS / 1000
        })
    }

    fn reads(&mut self, key: &str) -> Option<String> {
        let value = self.server.read(key, self.time)?;
        Some(name(&value))
    }
}

#[test]
fn each_has_its_own_lease_and_a_higher_fence_than_the_one_before() {
    let mut world = World::new();
    let epochs = world.all_taken(&commands(&[("a", 30), ("b", 20), ("c", 10)]));
    assert!(epochs.is_sorted_by(|one, next| one < next), "{epochs:?}");
    assert_eq!(epochs.len(), 3);
    assert_eq!(world.seconds_left(["a", "b", "c"]), [30, 20, 10]);
    for command in commands(&[("a", 1), ("b", 1), ("c", 1)]) {
        assert!(world.server.holds(&command.claim, world.time));
    }
}

#[test]
fn where_one_is_somebody_elses_it_is_named_and_none_is_taken() {
    let mut world = World::new();
    world.acquire(&at_key("b", once("other")));
    let answer = world.acquire_all(&commands(&[("a", 30), ("b", 30)]));
    let time = world.time;
    let busy = Busy {
        time,
        left: Left::For(Duration::from_secs(30)),
        value: once("other").value.to_string(),
    };
    assert_eq!(answer, AcquiredAll::Not { at: 1, busy });
    assert_eq!(world.reads("a"), None);
    assert_eq!(world.reads("b").as_deref(), Some("other"));
}

/// Even if the lock is free; the commands of its own kind grant to the head.
#[test]
fn who_waits_is_not_passed() {
    let mut world = World::new();
    let reader = "r|t|a|30000|0|0||host|1|f|0";
    world.server.enter("b", reader, world.time);
    let answer = world.acquire_all(&commands(&[("a", 30), ("b", 30)]));
    assert!(
        matches!(answer, AcquiredAll::Not { at: 1, .. }),
        "{answer:?}"
    );
    assert_eq!((world.reads("a"), world.reads("b")), (None, None));
}

#[test]
fn who_waits_for_what_became_free_is_granted_first() {
    let mut world = World::new();
    world.all_taken(&commands(&[("b", 3)]));
    world.acquire(&at_key("b", at_address("waiter", "waiter")));
    world.pass(3000);
    let answer = world.acquire_all(&commands(&[("a", 30), ("b", 30)]));
    assert!(
        matches!(answer, AcquiredAll::Not { at: 1, .. }),
        "{answer:?}"
    );
    assert_eq!(world.pushed(), ["waiter"]);
    assert_eq!(world.reads("b").as_deref(), Some("waiter"));
    assert_eq!(world.reads("a"), None);
}

#[test]
fn after_the_last_moment_of_one_of_them_nothing_is_created() {
    let mut world = World::new();
    let mut both = commands(&[("a", 30), ("b", 30)]);
    both[1].not_after = NOW;
    world.time += 1;
    assert_eq!(
        world.acquire_all(&both),
        AcquiredAll::Late { time: NOW + 1 }
    );
    assert_eq!(world.server.len(), 0);
    world.time -= 1;
    world.all_taken(&both); // at that very moment
}

/// The time left is that of the first lock to end, not of a lease that begins anew.
#[test]
fn executed_twice_they_are_ours_for_what_is_left() {
    let mut world = World::new();
    let both = commands(&[("a", 30), ("b", 20)]);
    let before = world.all_taken(&both);
    world.pass(5000);
    let AcquiredAll::All { epochs, left, .. } = world.acquire_all(&both) else {
        panic!("they are its own already")
    };
    assert_eq!(left, Some(Duration::from_secs(15)));
    assert_eq!(world.seconds_left(["a", "b"]), [25, 15], "and no longer");
    assert!(epochs.iter().min() > before.iter().max());
}

/// One of them has lapsed and has another holder by now.
#[test]
fn executed_twice_where_one_is_lost_what_is_left_of_it_is_given_back() {
    let mut world = World::new();
    let both = commands(&[("a", 30), ("b", 5)]);
    world.all_taken(&both);
    world.pass(5000);
    world.acquire(&at_key("b", once("other")));
    let answer = world.acquire_all(&both);
    assert!(
        matches!(answer, AcquiredAll::Not { at: 1, .. }),
        "{answer:?}"
    );
    assert_eq!(world.reads("a"), None);
    assert_eq!(world.reads("b").as_deref(), Some("other"));
}

#[test]
fn executed_twice_where_one_has_lapsed_all_are_taken_anew() {
    let mut world = World::new();
    let both = commands(&[("a", 30), ("b", 5)]);
    world.all_taken(&both);
    world.pass(5000);
    world.all_taken(&both);
    assert_eq!(world.seconds_left(["a", "b"]), [30, 5]);
}
