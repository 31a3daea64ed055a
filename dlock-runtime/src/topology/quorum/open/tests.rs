//! Tests of what is remembered between the commands about one lock, and that it ends.

use std::sync::Arc;
use std::time::Duration;

use super::{OpenClaims, SEEN_AT_MOST, SeenEpochs};
use crate::client::quorum::footprint::Footprint;
use crate::client::quorum::nodes::NodeCount;
use crate::values::moment::Moment;

fn first() -> Footprint {
    Footprint::at(NodeCount::new(3).unwrap().ids().take(1).collect(), 7)
}

#[test]
fn a_claim_is_everywhere_unless_it_was_said_where() {
    let open = OpenClaims::new(Duration::from_secs(1));
    let claim: Arc<str> = "claim".into();
    assert_eq!(open.end(&claim), None);
    open.put(&claim, first(), Moment::from_nanos(0));
    assert_eq!(open.end(&claim), Some(first()));
    assert_eq!(open.end("another"), None);
    open.forget(&claim);
    assert_eq!(open.end(&claim), None);
}

#[test]
fn claims_that_are_over_are_swept() {
    let open = OpenClaims::new(Duration::from_secs(1));
    for number in 0..10_000_u64 {
        let now = Moment::from_nanos(number * 1_000_000_000);
        open.put(&number.to_string().into(), first(), now);
    }
    let left = open.claims().by_value.len();
    assert!(left < 100, "{left}");
}

#[test]
fn epochs_that_were_seen_are_kept_until_the_lock_is_ours_and_are_few() {
    let seen = SeenEpochs::default();
    let key: Arc<str> = "key".into();
    for (told, highest) in [(7, 7), (3, 7), (9, 9), (0, 0), (2, 2)] {
        seen.told(&key, told);
        assert_eq!(seen.highest(&key), highest, "after {told}");
    }
    for number in 0..3 * SEEN_AT_MOST {
        seen.told(&number.to_string().into(), 1);
    }
    assert!(seen.0.lock().unwrap().len() <= SEEN_AT_MOST);
}
