//! Compares the epochs of both servers. Those of a server with queues differ, but their order is the
//! same, and two are equal on one server if they are equal on the other; those of a node are the
//! same numbers.

use std::collections::BTreeMap;

pub(super) enum Epochs {
    /// Maps each epoch of the pure machine to the real one.
    InOrder(BTreeMap<u64, u64>),
    Same,
}

impl Epochs {
    /// The epoch of a grant that draws its own: higher than all before.
    pub(super) fn rise(&mut self, real: u64, pure: u64) {
        let last = self.known().and_then(|it| it.keys().next_back());
        assert!(last.is_none_or(|last| pure > *last), "{pure} is not new");
        self.same(real, pure);
    }

    /// The epoch of any grant: an owner's entries share one, and an acquire draws its own before it
    /// grants to others.
    pub(super) fn same(&mut self, real: u64, pure: u64) {
        let Self::InOrder(all) = self else {
            assert_eq!(real, pure, "the epoch");
            return;
        };
        if let Some(known) = all.get(&pure) {
            assert_eq!(real, *known, "the epoch of a hold");
            return;
        }
        let before = all.range(..pure).next_back();
        let after = all.range(pure..).next();
        assert!(
            before.is_none_or(|(_, it)| real > *it) && after.is_none_or(|(_, it)| real < *it),
            "{real} is not where {pure} is"
        );
        all.insert(pure, real);
    }

    /// The highest real epoch.
    pub(super) fn last(&self) -> u64 {
        let all = self.known().into_iter().flat_map(BTreeMap::values);
        all.copied().max().unwrap_or_default()
    }

    fn known(&self) -> Option<&BTreeMap<u64, u64>> {
        match self {
            Self::InOrder(all) => Some(all),
            Self::Same => None,
        }
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
