//! A server whose clock runs at another rate than its client's: whether a second holder can come
//! before the first one's deadline.

use std::time::Duration;

use super::NOW;
use super::world::{World, once};
use crate::client::lease::{Lease, LeaseTerms};
use crate::rules::commands::{Acquired, Renewal};
use crate::values::bounds::Bounds;
use crate::values::moment::Moment;
use crate::values::ttl::{Margin, Ttl};

/// The lease of the world's acquires.
const TTL: Duration = Duration::from_secs(30);

/// chrony's default `maxslewrate`.
const CHRONY: u64 = 83_333;

fn at(millis: u64) -> Moment {
    Moment::from_nanos(millis * 1_000_000)
}

/// The first holder's deadline and when a second one gets the lock, in ms of the client's clock, if
/// the server's is fast by this many ppm. A renewal is at 10 s.
fn hold(fast_ppm: u64, margin: usize, renews: bool) -> (u64, u64) {
    let mut world = World::new();
    let show = |world: &mut World, millis: u64| {
        world.time = NOW + millis * 1_000 + millis * fast_ppm / 1_000;
    };
    let terms = LeaseTerms {
        ttl: Ttl::new(TTL).unwrap(),
        renew: renews.then_some(TTL / 3),
        bounds: Bounds::default(),
        margin: Margin::percent(margin).unwrap(),
    };
    let first = once("first");
    assert!(matches!(world.acquire(&first), Acquired::Granted { .. }));
    let mut lease = Lease::granted(at(0), TTL, &terms);
    if renews {
        show(&mut world, 10_000);
        let ttl = terms.ttl;
        let claim = first.clone();
        world.server.renew(&Renewal { claim, ttl }, world.time);
        lease.renewing();
        lease.renewed(at(10_000));
    }
    let second = once("second");
    let comes = (20_000..60_000).find(|millis| {
        show(&mut world, *millis);
        matches!(world.acquire(&second), Acquired::Granted { .. })
    });
    (lease.deadline().as_nanos() / 1_000_000, comes.unwrap())
}

#[test]
fn by_default_a_server_slewed_as_chrony_may_lets_a_second_one_in_early() {
    for renews in [false, true] {
        let (deadline, second) = hold(CHRONY, 1, renews);
        assert!(
            second + 2_000 < deadline,
            "{second} {deadline}: the documented bound"
        );
    }
}

#[test]
fn with_a_wider_margin_the_second_one_never_comes_before_the_deadline() {
    for renews in [false, true] {
        let (deadline, second) = hold(CHRONY, 10, renews);
        assert!(deadline <= second, "{deadline} {second}");
    }
}

#[test]
fn each_margin_covers_the_rates_that_it_says() {
    for margin in [1, 2, 8, 16, 20] {
        // While the server's clock shows n seconds, the client's shows n less the margin.
        let percent = u64::try_from(margin).unwrap();
        let fast_ppm = percent * 1_000_000 / (100 - percent);
        for renews in [false, true] {
            let (deadline, second) = hold(fast_ppm, margin, renews);
            assert!(deadline <= second, "{margin} %: {deadline} {second}");
            assert!(
                second - deadline <= 4,
                "and no more is given away: {margin} %"
            );
        }
    }
}
