//! The epochs of both servers: different numbers in the same order, and the same where the other's are.

use std::collections::BTreeMap;

/// The real one of each of the pure machine's.
#[derive(Default)]
pub(super) struct Epochs(BTreeMap<u64, u64>);

impl Epochs {
    /// Of a grant that draws its own: higher than all before.
    pub(super) fn rise(&mut self, real: u64, pure: u64) {
        let last = self.0.last_key_value();
        assert!(
            last.is_none_or(|(last, _)| pure > *last),
            "{pure} is not new"
        );
        self.same(real, pure);
    }

    /// Of any grant: an owner's entries share one, and an acquire draws its own before it grants to others.
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

    /// The highest of the real ones.
    pub(super) fn last(&self) -> u64 {
        self.0.values().copied().max().unwrap_or_default()
    }

    /// Of two metas: the same words, and the same hold.
    pub(super) fn same_meta(&mut self, real: &str, pure: &str) {
        let split = |meta: &str| {
            let (words, epoch) = meta.rsplit_once('|')?;
            meta.starts_with("1|#|o|").then_some(())?;
            Some((words.to_owned(), epoch.parse().ok()?))
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
