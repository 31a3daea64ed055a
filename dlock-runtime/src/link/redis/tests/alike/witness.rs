//! How often the operations of all cases have reached what a property is about. Random operations
//! that never get there would prove nothing, and nobody would notice.

use std::cell::RefCell;
use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub(super) struct Witness(RefCell<BTreeMap<&'static str, u32>>);

impl Witness {
    pub(super) fn saw(&self, what: &'static str) {
        *self.0.borrow_mut().entry(what).or_default() += 1;
    }

    pub(super) fn saw_if(&self, is_there: bool, what: &'static str) {
        if is_there {
            self.saw(what);
        }
    }

    /// Tells all, and fails if one of these was not seen so often.
    #[track_caller]
    pub(super) fn must_have_seen<'a>(&self, all: impl IntoIterator<Item = (&'a str, u32)>) {
        let seen = self.0.borrow();
        println!("{seen:#?}");
        for (what, least) in all {
            let times = seen.get(what).copied().unwrap_or_default();
            assert!(times >= least, "{what}: {times} times, of {seen:#?}");
        }
    }
}
