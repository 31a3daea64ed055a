//! Tests what is offered without scripts, and that each refusal says why and what to do.

use super::{Offers, WantedOffer};
use crate::values::kind::Kind;

fn lock(kind: &Kind) -> WantedOffer<'_> {
    WantedOffer::Lock {
        once: false,
        kind,
        fair: false,
        several: false,
    }
}

#[test]
fn without_scripts_there_is_the_exclusive_lock() {
    assert_eq!(Offers::WithoutScripts.check(lock(&Kind::Exclusive)), Ok(()));
}

#[test]
fn each_refusal_says_what_why_and_what_else() {
    let kind = Kind::Exclusive;
    let (fair, several) = (true, true);
    for (wanted, what, instead) in [
        (lock(&Kind::Read), "a read/write lock", "exclusive"),
        (lock(&Kind::Write), "a read/write lock", "exclusive"),
        (
            lock(&Kind::Permits { of: 3, take: 1 }),
            "a lock with 3 permits",
            "exclusive",
        ),
        (lock(&Kind::Owned("ann".into())), "owner `ann`", "exclusive"),
        (
            WantedOffer::Lock {
                once: false,
                kind: &kind,
                fair,
                several: false,
            },
            "`fair`",
            "leave `fair` out",
        ),
        (
            WantedOffer::Lock {
                once: false,
                kind: &kind,
                fair: false,
                several,
            },
            "several keys",
            "one lock inside the other",
        ),
        (WantedOffer::Writes, "a guarded write", "`fence`"),
        (
            WantedOffer::EvictionOfOne,
            "one of many holders",
            "a program whose pool",
        ),
    ] {
        assert_eq!(Offers::Everything.check(wanted), Ok(()));
        let why = Offers::WithoutScripts.check(wanted).unwrap_err();
        let why = why.to_string();
        for part in [what, "`without_scripts`", instead] {
            assert!(why.contains(part), "{part}: {why}");
        }
    }
}

#[test]
fn a_refusal_of_several_servers_names_what_they_can_t_have() {
    let (kind, permits) = (Kind::Exclusive, Kind::Permits { of: 3, take: 1 });
    let asked = |kind, fair, several| WantedOffer::Lock {
        once: false,
        kind,
        fair,
        several,
    };
    for (wanted, refused) in [
        (asked(&kind, false, true), None),
        (asked(&kind, true, true), Some("`fair` can't be had")),
        (
            asked(&permits, false, false),
            Some("a lock with permits can't"),
        ),
        (WantedOffer::Writes, Some("a guarded write can't be had")),
        (WantedOffer::EvictionOfOne, None),
    ] {
        let why = Offers::Quorum.check(wanted).err();
        let said = why.map(|why| why.to_string());
        let begins = said.as_deref().zip(refused);
        assert!(begins.is_none_or(|(said, refused)| said.starts_with(refused)));
        assert_eq!(said.is_some(), refused.is_some(), "{said:?}");
    }
}
