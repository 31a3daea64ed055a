//! Property test: random changes of the message published to a connection's channel. If the fleet
//! has a secret, only what a script wrote is believed; otherwise at most one grant, exactly as
//! written and within its bounds.

use proptest::collection::vec;
use proptest::prelude::{ProptestConfig, Strategy, any, prop_oneof};
use proptest::proptest;
use proptest::sample::{Index, select};
use proptest::test_runner::RngSeed;

use super::push::{CHANNEL, Hearing, grant_key, mac};

const TIME: u64 = 1_790_000_000_000_000;

/// A change of a message.
#[derive(Clone, Debug)]
enum Change {
    /// The line is replaced.
    Line(Index, String),
    Without(Index),
    Twice(Index),
    Byte(Index, u8),
    CutOff(Index),
    Behind(Vec<u8>),
}

fn change() -> impl Strategy<Value = Change> {
    let at = any::<Index>;
    let numbers = select(vec![
        "0",
        "-1",
        "+1",
        "1e3",
        "0x1",
        " 1",
        "007",
        "9007199254740992",
        "9223372036854775808",
        "18446744073709551615",
        "18446744073709551616",
        "99999999999999999999999999999999999999999",
    ]);
    prop_oneof![
        4 => (at(), numbers.prop_map(str::to_owned)).prop_map(|(at, line)| Change::Line(at, line)),
        2 => (at(), any::<String>()).prop_map(|(at, line)| Change::Line(at, line)),
        1 => at().prop_map(Change::Without),
        1 => at().prop_map(Change::Twice),
        3 => (at(), any::<u8>()).prop_map(|(at, byte)| Change::Byte(at, byte)),
        1 => at().prop_map(Change::CutOff),
        1 => vec(any::<u8>(), 0..3000).prop_map(Change::Behind),
    ]
}

impl Change {
    fn of(&self, message: &[u8]) -> Vec<u8> {
        let mut lines: Vec<&[u8]> = message.split(|it| *it == b'\n').collect();
        let nth = |at: &Index| at.index(message.split(|it| *it == b'\n').count());
        match self {
            Change::Line(at, line) => lines[nth(at)] = line.as_bytes(),
            Change::Without(at) => drop(lines.remove(nth(at))),
            Change::Twice(at) => lines.insert(nth(at), lines[nth(at)]),
            Change::Byte(at, byte) => {
                let mut message = message.to_vec();
                if let Some(it) = message.get_mut(at.index(1000)) {
                    *it = *byte;
                }
                return message;
            }
            Change::CutOff(at) => {
                let end = at.index(message.len() + 1);
                return message[..end].to_vec();
            }
            Change::Behind(more) => return [message, more].concat(),
        }
        lines.join(&b'\n')
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 5000, rng_seed: RngSeed::Fixed(7), failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn no_bytes_but_those_of_a_script_are_believed(changes in vec(change(), 0..4), answered in any::<Option<u64>>()) {
        let key = grant_key("of the fleet, and long");
        let (proving, trusting) = (Hearing::with(&key), Hearing::new());
        for hearing in [&proving, &trusting] {
            hearing.answered(answered.unwrap_or(TIME));
        }
        let said = format!("1|granted\nlock:a\n1|x|0123-1-1||30000|0|0||h|1|f|1\n{}\n{TIME}\n2500", TIME + 1);
        let genuine = format!("{said}\n{}", mac(&key, CHANNEL, &said)).into_bytes();
        let payload = changes.iter().fold(genuine.clone(), |it, change| change.of(&it));
        let proved = proving.message(CHANNEL, &payload);
        assert!(proved.is_empty() || payload == genuine, "a forgery is believed");
        let trusted = trusting.message(CHANNEL, &payload);
        assert!(trusted.len() <= 1);
        for (grant, since) in proved.into_iter().chain(trusted) {
            let text = String::from_utf8(payload.clone()).unwrap();
            let lines: Vec<&str> = text.split('\n').collect();
            assert_eq!((lines[1], lines[2]), (&*grant.key, &*grant.value));
            let millis = u64::try_from(grant.lease.as_millis()).unwrap();
            for (line, number) in lines[3..6].iter().zip([grant.epoch, grant.time, millis]) {
                assert_eq!(line.parse(), Ok(number));
            }
            assert!(millis <= 3000 && since.is_none_or(|since| since <= trusting.now().max(proving.now())));
            assert!(grant.epoch >= grant.time && grant.epoch - grant.time <= 60_000_000, "a fence from nowhere");
        }
    }
}
