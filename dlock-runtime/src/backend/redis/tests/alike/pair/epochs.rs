//! Compares the epochs of both servers: the numbers differ, but their order is the same, and two
//! are equal on one server if they are equal on the other.

use std::collections::BTreeMap;

/// Maps each epoch of the pure machine to the real one.
#[derive(Default)]
pub(super) struct Epochs(BTreeMap<u64, u64>);

impl Epochs {
    /// The epoch of a grant that draws its own: higher than all before.
    pub(super) fn rise(&mut self, real: u64, pure: u64) {
        let last = self.0.last_key_value();
        assert!(
            last.is_none_or(|(last, _)| pure > *last),
            "{pure} is not new"
        );
        self.same(real, pure);
    }

    /// The epoch of any grant: an owner's entries share one, and an acquire draws its own before it
    /// grants to others.
    pub(super) fn same(&mut self, real: u64, pure: u64) {
        if let Some(known) = self.0.get(&pure) {
            assert_eq!(real, *known, "the epoch of a hold");
            return;
        }
        let before = self.0.range(..pure).next_back();
        let after = self.0.range(pure..).next();
        assert!(
            before.is_none_or(|(_, it)| real > *it) && after.is_none_or(|(_, it)| real < *it),
            "{real} is not where {pure} is"
        );
        self.0.insert(pure, real);
    }

    /// The highest real epoch.
    pub(super) fn last(&self) -> u64 {
        self.0.values().copied().max().unwrap_or_default()
    }

    /// Compares two metas: the same fields, and corresponding epochs.
    pub(super) fn same_meta(&mut self, real: &str, pure: &str) {
        let split = |meta: &str| {
            let (meta, noted) = meta.split_once("||").unwrap_or((meta, ""));
            let (words, epoch) = meta.rsplit_once('|')?;
            meta.starts_with("1|#|o|").then_some(())?;
            Some((format!("{words} {noted}"), epoch.parse().ok()?))
        };
        match (split(real), split(pure)) {
            (Some((real, real_epoch)), Some((pure, pure_epoch))) => {
                assert_eq!(real, pure, "whose hold it is");
                self.same(real_epoch, pure_epoch);
            }
            _ => assert_eq!(real, pure, "what they have in common"),
        }
    }
}
