//! The server's side at its boundaries. That the scripts do the same is tested in
//! `link/redis/tests`.

mod acquire_all;
mod clock_rates;
mod granting;
mod queueing;
pub(crate) mod rows;
mod shared;
pub(crate) mod windows;
mod world;

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use crate::rules::commands::{Acquire, Acquired, Busy, Claim, Keep, Left, PushedGrant};
use crate::rules::{Publish, Reached, Server};
use crate::values::ttl::Ttl;

const NOW: u64 = 1_700_000_000_000_000;
const MS: u64 = 1000;

/// A server without waiters.
#[derive(Default)]
struct Quiet(Server);

struct NoPushes;

impl Publish for NoPushes {
    fn publish(&mut self, _: &str, grant: &PushedGrant) -> Reached {
        panic!("nobody waits: {grant:?}")
    }
}

impl Quiet {
    fn acquire(&mut self, command: &Acquire, time: u64) -> Acquired {
        self.0.acquire(command, time, &mut NoPushes)
    }

    fn release(&mut self, claim: &Claim, time: u64) -> bool {
        self.0.release(claim, Keep::NOT, time, &mut NoPushes).found
    }
}

impl Deref for Quiet {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.0
    }
}

impl DerefMut for Quiet {
    fn deref_mut(&mut self) -> &mut Server {
        &mut self.0
    }
}

fn claim(key: &str, value: &str) -> Claim {
    Claim {
        is_once: false,
        key: key.into(),
        value: value.into(),
        queues: false,
    }
}

/// For 100 ms, at any time.
fn acquire(key: &str, value: &str) -> Acquire {
    Acquire {
        claim: claim(key, value),
        lease: Ttl::new(Duration::from_millis(100)).unwrap(),
        not_after: u64::MAX,
        repair_missing_ttl: None,
    }
}

fn epoch(answer: &Acquired) -> u64 {
    match answer {
        Acquired::Granted { epoch, .. } | Acquired::Yours { epoch, .. } => *epoch,
        other => panic!("not granted: {other:?}"),
    }
}

fn is_granted(answer: &Acquired) -> bool {
    matches!(answer, Acquired::Granted { .. })
}

#[test]
fn a_lock_is_free_at_the_moment_its_lease_ends() {
    let mut server = Quiet::default();
    assert!(is_granted(&server.acquire(&acquire("k", "a"), NOW)));
    let before = server.acquire(&acquire("k", "b"), NOW + 100 * MS - 1);
    let left = Left::For(Duration::from_millis(1));
    assert_eq!(
        before,
        Acquired::Busy(Busy {
            time: NOW + 100 * MS - 1,
            left,
            value: "a".to_owned()
        })
    );
    assert!(is_granted(
        &server.acquire(&acquire("k", "b"), NOW + 100 * MS)
    ));
    assert!(
        !server.release(&claim("k", "a"), NOW + 100 * MS),
        "the earlier holder frees nothing"
    );
}

#[test]
fn an_acquire_may_come_at_its_last_moment_and_not_after() {
    let mut server = Quiet::default();
    let command = Acquire {
        not_after: NOW,
        ..acquire("k", "a")
    };
    assert_eq!(
        server.acquire(&command, NOW + 1),
        Acquired::Late { time: NOW + 1 }
    );
    assert_eq!(server.len(), 0);
    assert!(is_granted(&server.acquire(&command, NOW)));
}

#[test]
fn epochs_follow_the_clock_and_rise_when_it_stands_or_goes_back() {
    let mut server = Quiet::default();
    let mut last = 0;
    for (index, time) in [NOW, NOW, NOW - 5000, NOW + 7, 0].into_iter().enumerate() {
        let drawn = epoch(&server.acquire(&acquire(&format!("k{index}"), "a"), time));
        assert!(
            drawn > last && drawn >= time,
            "{drawn} after {last} at {time}"
        );
        last = drawn;
    }
    let afresh = epoch(&Quiet::default().acquire(&acquire("k", "a"), NOW + 50));
    assert!(afresh > last, "a server that lost everything");
}

#[test]
fn a_key_without_a_time_to_live_is_endless_unless_repaired() {
    let mut server = Quiet::default();
    server.put("k", "left behind", None);
    let busy = |left| {
        Acquired::Busy(Busy {
            time: NOW,
            left,
            value: "left behind".to_owned(),
        })
    };
    assert_eq!(server.acquire(&acquire("k", "a"), NOW), busy(Left::Endless));
    let command = Acquire {
        repair_missing_ttl: Some(Duration::from_secs(1)),
        ..acquire("k", "a")
    };
    assert_eq!(
        server.acquire(&command, NOW),
        busy(Left::For(Duration::from_secs(1)))
    );
    assert!(is_granted(&server.acquire(&command, NOW + 1000 * MS)));
}

/// Ids as keys: a program that locks each order once must not fill its memory with ended leases.
#[test]
fn lapsed_keys_do_not_pile_up() {
    let mut server = Quiet::default();
    server.put("endless", "x", None);
    for index in 0..10_000 {
        server.acquire(
            &acquire(&format!("order:{index}"), "a"),
            NOW + index * 10 * MS,
        );
        assert!(
            server.len() <= 128,
            "{} keys of which 10 live",
            server.len()
        );
    }
    assert!(
        server.read("endless", u64::MAX).is_some(),
        "what does not lapse stays"
    );
}
