//! The local queue under random sequences of events, compared with a simple model of its waiters
//! and tokens.

mod account;

use proptest::collection::vec;
use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop_oneof};
use proptest::proptest;
use proptest::test_runner::RngSeed;

use self::account::Account;

/// A waiter is an index, modulo all waiters that ever were; a token is this many before the last
/// acquired.
#[derive(Clone, Debug)]
enum Event {
    Enter,
    Leave(usize),
    Check(usize),
    /// The leader does what it has to do; other events answer what it sends, or not.
    Lead,
    TakeOver,
    LeaderGone,
    Queued {
        ago: u64,
        poll: u64,
    },
    /// By any answer or push; the grant began some time ago.
    Granted {
        ago: u64,
        since: u64,
        lease: u64,
        handoffs: u16,
    },
    Ended {
        ago: u64,
        pause: u64,
    },
    Left {
        ago: u64,
    },
    /// Its holder is done; `fits`: whether the next waiter could use the grant.
    HandOn {
        ago: u64,
        fits: bool,
    },
    Pause(u64),
    FlushEarly,
    Clear,
    Wait(u64),
}

fn event() -> impl Strategy<Value = Event> {
    let who = || any::<usize>();
    let ago = || prop_oneof![6 => Just(0..1u64), 1 => Just(1..4u64)].prop_flat_map(|it| it);
    prop_oneof![
        5 => Just(Event::Enter),
        4 => who().prop_map(Event::Leave),
        8 => who().prop_map(Event::Check),
        10 => Just(Event::Lead),
        6 => Just(Event::TakeOver),
        1 => Just(Event::LeaderGone),
        3 => (ago(), 0..200u64).prop_map(|(ago, poll)| Event::Queued { ago, poll }),
        5 => (ago(), 0..200u64, 0..900u64, 0..3u16).prop_map(|(ago, since, lease, handoffs)| Event::Granted {
            ago, since, lease, handoffs,
        }),
        2 => (ago(), 0..200u64).prop_map(|(ago, pause)| Event::Ended { ago, pause }),
        2 => ago().prop_map(|ago| Event::Left { ago }),
        4 => (ago(), any::<bool>()).prop_map(|(ago, fits)| Event::HandOn { ago, fits }),
        1 => (0..200u64).prop_map(Event::Pause),
        1 => Just(Event::FlushEarly),
        1 => Just(Event::Clear),
        4 => (0..400u64).prop_map(Event::Wait),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 1000, rng_seed: RngSeed::Fixed(7), failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn no_sequence_of_events_breaks_the_queue(events in vec(event(), 1..100), crowd in 0..3usize) {
        let mut account = Account::default();
        for event in &events {
            account.take(event);
            account.check();
        }
        account.serve_all(crowd);
    }
}
