//! How long something of a token can stay on the server.

use super::{ms, ttl};
use crate::rules::commands::Claim;
use crate::rules::queue::longest_stay;
use crate::values::entry;
use crate::values::kind::Kind;

/// A second more than the lease, or than a queue entry can live, be granted and lapse.
#[test]
fn what_a_token_leaves_behind_has_an_end() {
    for (lease, longest) in [(10, 7500), (6500, 7500), (6501, 7501), (30_000, 31_000)] {
        assert_eq!(longest_stay(ms(lease)), ms(longest));
        let entry = entry::of_test(&Kind::Exclusive, "t", "ch", ttl(lease), "");
        let claim = |value: &str| Claim {
            is_once: false,
            key: "k".into(),
            value: value.into(),
            queues: true,
        };
        assert_eq!(claim(&entry).longest_stay(), ms(longest));
        assert_eq!(
            claim("foreign").longest_stay(),
            ms(7500),
            "a claim, at most"
        );
    }
}
