//! The token table under random sequences of events, beside a simple model of each token's state.

mod account;

use dlock_harness::cases;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::{ProptestConfig, Strategy, any, prop_oneof};
use proptest::proptest;
use proptest::test_runner::RngSeed;

use self::account::Account;
use super::ms;
use crate::rules::commands::Keep;
use crate::values::bounds::Bounds;

/// An index is taken modulo the number of tokens or commands that exist.
#[derive(Clone, Debug)]
enum Event {
    Start,
    Queued(usize),
    PushedGrant {
        who: usize,
        ttl: u64,
        /// Thousandths of the lease that the server gave.
        given: u64,
        renew: bool,
        bounds: Bounds,
    },
    NotGranted(usize),
    GiveUp(usize),
    Stray(usize),
    /// Of a number that is drawn only later: this many ahead.
    StrayAhead(u64),
    Keep {
        who: usize,
        keep: Keep,
    },
    Abandon {
        who: usize,
        behind: bool,
    },
    Release(usize),
    Released(usize),
    HandOver(usize),
    Extend {
        who: usize,
        by: u64,
    },
    Refuse(usize),
    /// The server's answer to a command under way: 0 fails, 1 says no, 2 says yes.
    Answer {
        command: usize,
        how: u8,
    },
    Check {
        after: u64,
    },
    LookAtOne(usize),
}

fn event() -> impl Strategy<Value = Event> {
    let who = || any::<usize>();
    prop_oneof![
        4 => proptest::strategy::Just(Event::Start),
        4 => who().prop_map(Event::Queued),
        6 => (who(), 10..3000u64, 100..1250u64, any::<bool>(), bounds())
            .prop_map(|(who, ttl, given, renew, bounds)| Event::PushedGrant { who, ttl, given, renew, bounds }),
        1 => who().prop_map(Event::NotGranted),
        2 => who().prop_map(Event::GiveUp),
        1 => who().prop_map(Event::Stray),
        1 => (0..4u64).prop_map(Event::StrayAhead),
        2 => (who(), 1..1000u64).prop_map(|(who, from)| Event::Keep { who, keep: Keep::from(from, ms(1)) }),
        2 => (who(), any::<bool>()).prop_map(|(who, behind)| Event::Abandon { who, behind }),
        2 => who().prop_map(Event::Release),
        1 => who().prop_map(Event::Released),
        2 => who().prop_map(Event::HandOver),
        1 => (who(), 10..3000u64).prop_map(|(who, by)| Event::Extend { who, by }),
        1 => who().prop_map(Event::Refuse),
        8 => (who(), 0..3u8).prop_map(|(command, how)| Event::Answer { command, how }),
        8 => (0..800u64).prop_map(|after| Event::Check { after }),
        2 => who().prop_map(Event::LookAtOne),
    ]
}

fn bounds() -> impl Strategy<Value = Bounds> {
    let length = || (1..4000u64).prop_map(ms);
    let (max_hold, min_hold) = (
        option::weighted(0.3, length()),
        option::weighted(0.3, length()),
    );
    let max_renewals = option::weighted(0.3, 0..3u32);
    (max_hold, max_renewals, min_hold).prop_map(|(max_hold, max_renewals, min_hold)| Bounds {
        max_hold,
        max_renewals,
        min_hold,
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: cases(1000), rng_seed: RngSeed::Fixed(7), failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn no_sequence_of_events_breaks_the_table(events in vec(event(), 1..80), last in 0..4u8) {
        let mut account = Account::default();
        for event in &events {
            account.take(event);
            account.check();
        }
        account.run_dry(last);
    }
}
