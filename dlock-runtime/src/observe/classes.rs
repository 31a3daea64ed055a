//! Who is told about the locks of a pool, and what each class of locks is called.
//!
//! Invariant: there are never more classes than places in the program's text that take locks,
//! however many keys there are.

use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use super::AskedLock;
#[cfg(feature = "metrics")]
use super::metrics::Meters;
use crate::strangers::spared;
use crate::values::class::{Class, Site};
use crate::values::config::Observing;
use crate::values::error::LostCause;
use crate::values::hashed::HashedMap;
use crate::values::key::KeyParts;
use crate::values::listener::{
    AcquireOutcome, ConfiguredListener, HoldOutcome, LockInfo, LockListener,
};

/// The observers of one pool.
#[derive(Debug, Default)]
pub(crate) struct Observers {
    listener: Option<ConfiguredListener>,
    long_hold: Option<Duration>,
    /// By the address of the site, of which there is mostly one with one class.
    classes: RwLock<HashedMap<u64, Vec<Arc<ObservedClass>>>>,
}

impl Observers {
    pub(crate) fn new(observing: &Observing) -> Self {
        Self {
            listener: observing.listener.clone(),
            long_hold: observing.long_hold,
            classes: RwLock::default(),
        }
    }

    /// From when on a hold is logged as long.
    pub(crate) fn long_hold(&self) -> Option<Duration> {
        self.long_hold
    }

    /// Whether the watchdog must look, once a second, at what is held and waited for.
    pub(crate) fn want_looks(&self) -> bool {
        cfg!(feature = "metrics") || self.long_hold.is_some()
    }

    /// Whether anybody is told about anything.
    fn listen(&self) -> bool {
        cfg!(feature = "metrics") || self.listener.is_some()
    }

    /// What observers know about a lock that is asked for; `None` if there are none.
    pub(crate) fn class_of(&self, asked: AskedLock<'_>) -> Option<Arc<ObservedClass>> {
        let AskedLock { kind, site, .. } = asked;
        self.listen()
            .then(|| self.find(asked.class(), site, kind.label()))
    }

    fn find(&self, class: Class, site: Site, kind: &'static str) -> Arc<ObservedClass> {
        let is_it = |it: &&Arc<ObservedClass>| it.is_of(&class, site, kind);
        let known = self.classes.read().unwrap_or_else(PoisonError::into_inner);
        let here = known.get(&site.spread());
        if let Some(found) = here.and_then(|here| here.iter().find(is_it)) {
            return found.clone();
        }
        drop(known);
        let mut known = self.classes.write().unwrap_or_else(PoisonError::into_inner);
        #[cfg(feature = "metrics")]
        if known.is_empty() {
            super::metrics::describe();
        }
        let here = known.entry(site.spread()).or_default();
        if let Some(found) = here.iter().find(is_it) {
            return found.clone();
        }
        let new = Arc::new(ObservedClass::new(class, site, kind, self.listener.clone()));
        here.push(new.clone());
        new
    }

    /// Looks for the recorder of metrics again, for the next call of each class: the program may
    /// have installed one since, and some recorders forget what was idle for long.
    pub(crate) fn renew(&self) {
        let mut classes = self.classes.write().unwrap_or_else(PoisonError::into_inner);
        let former = std::mem::take(&mut *classes);
        drop(classes);
        spared(|| drop(former)); // with the recorder's handles
    }
}

/// A class of locks as one site asks for it.
pub(crate) struct ObservedClass {
    class: Class,
    site: Site,
    kind: &'static str,
    label: Arc<str>,
    function: Cow<'static, str>,
    listener: Option<ConfiguredListener>,
    #[cfg(feature = "metrics")]
    meters: Meters,
}

impl ObservedClass {
    fn new(
        class: Class,
        site: Site,
        kind: &'static str,
        listener: Option<ConfiguredListener>,
    ) -> Self {
        let (label, function) = (Arc::<str>::from(class.label()), site.name());
        Self {
            #[cfg(feature = "metrics")]
            meters: Meters::new(&label, kind, &function),
            class,
            site,
            kind,
            label,
            function,
            listener,
        }
    }

    /// The same place in the program's text, so most of it is compared by address.
    fn is_of(&self, class: &Class, site: Site, kind: &str) -> bool {
        self.site.is_same(site) && self.class.is_same(class) && self.kind == kind
    }

    /// The labels of its gauges: what it is called, and its kind.
    #[cfg(feature = "metrics")]
    pub(super) fn labels(&self) -> (&Arc<str>, &'static str) {
        (&self.label, self.kind)
    }

    pub(crate) fn acquire_ended(
        &self,
        key: KeyParts<'_>,
        outcome: AcquireOutcome,
        waited: Duration,
    ) {
        #[cfg(feature = "metrics")]
        self.meters.acquire_ended(outcome, waited);
        self.tell(key, |listener, lock| {
            listener.acquire_ended(lock, outcome, waited);
        });
    }

    pub(super) fn hold_ended(&self, key: KeyParts<'_>, outcome: HoldOutcome, held: Duration) {
        #[cfg(feature = "metrics")]
        self.meters.hold_ended(outcome, held);
        self.tell(key, |listener, lock| {
            listener.hold_ended(lock, outcome, held);
        });
    }

    pub(super) fn lost(&self, key: KeyParts<'_>, cause: LostCause) {
        #[cfg(feature = "metrics")]
        self.meters.lost(cause);
        self.tell(key, |listener, lock| listener.lost(lock, cause));
    }

    pub(super) fn renewed(&self, key: KeyParts<'_>, left: Duration, lease: Duration) {
        #[cfg(feature = "metrics")]
        self.meters.renewed(left, lease);
        self.tell(key, |listener, lock| listener.renewed(lock, left, lease));
    }

    /// A listener's panic must end neither the caller's task nor the watchdog.
    fn tell(&self, key: KeyParts<'_>, tell: impl FnOnce(&dyn LockListener, &LockInfo<'_>)) {
        let Some(ConfiguredListener(listener)) = &self.listener else {
            return;
        };
        let lock = LockInfo {
            class: &self.label,
            key: key.whole(),
            kind: self.kind,
            function: &self.function,
        };
        if spared(|| tell(&**listener, &lock)).is_none() {
            super::listener_panicked();
        }
    }
}

impl fmt::Debug for ObservedClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObservedClass")
            .field("label", &self.label)
            .finish_non_exhaustive()
    }
}
