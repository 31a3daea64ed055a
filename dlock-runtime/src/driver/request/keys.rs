//! What a request is about: one key, or several, which are taken all or none.
//!
//! It takes no lock itself. Invariant: several keys are sorted by name, each once.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;

use dlock_grammar::kind::{KindError, check_keys};

use crate::client::spec::AcquireSpec;
use crate::driver::acquire;
use crate::driver::acquire_all;
use crate::driver::call::CallOfRequest;
use crate::driver::core::Core;
use crate::driver::guard::LockGuard;
use crate::values::error::LockError;
use crate::values::key::Key;

/// The keys of one request.
#[derive(Clone, Debug)]
pub(crate) enum Keys {
    One(Key),
    /// In any order, perhaps with duplicates.
    All(Vec<Key>),
}

/// The locks to take, all checked.
#[derive(Debug)]
pub(crate) enum AcquireSpecs {
    One(Arc<AcquireSpec>),
    /// In the order of their names, each once.
    All(Vec<Arc<AcquireSpec>>),
}

impl Keys {
    /// What is wrong with the number of keys.
    pub(super) fn check(&self) -> Result<(), String> {
        match self {
            Keys::One(_) => Ok(()),
            Keys::All(keys) => check_keys(keys.len()).map_err(|why| why.to_string()),
        }
    }

    pub(super) fn are_several(&self) -> bool {
        matches!(self, Keys::All(_))
    }

    /// The spec of each key.
    pub(super) fn specs(
        self,
        spec: impl Fn(Key) -> Result<AcquireSpec, LockError>,
    ) -> Result<AcquireSpecs, LockError> {
        let spec = |key: Key| spec(key).map(Arc::new);
        let keys = match self {
            Keys::One(key) => return spec(key).map(AcquireSpecs::One),
            Keys::All(keys) => keys,
        };
        let specs = keys.into_iter().map(spec);
        let mut specs: Vec<_> = specs.collect::<Result<_, LockError>>()?;
        specs.sort_by(|one, other| one.name().cmp(other.name()));
        specs.dedup_by(|one, other| one.name() == other.name());
        Ok(AcquireSpecs::All(specs))
    }
}

impl AcquireSpecs {
    async fn acquire_all(
        core: &Arc<Core>,
        specs: &[Arc<AcquireSpec>],
    ) -> Result<LockGuard, LockError> {
        let Some(first) = specs.first() else {
            return Err(LockError::config(KindError::NoKeys));
        };
        let mut call = CallOfRequest::begins(core, first, specs.len());
        let mut acquire = pin!(acquire_all::acquire(core, first, specs, call.begun()));
        let acquired = poll_fn(|cx| call.polls(acquire.as_mut(), cx)).await;
        call.ended(&acquired);
        acquired
    }

    pub(crate) async fn acquire(&self, core: &Arc<Core>) -> Result<LockGuard, LockError> {
        match self {
            AcquireSpecs::One(spec) => {
                let mut call = CallOfRequest::begins(core, spec, 1);
                let mut acquire = pin!(acquire::acquire(core, spec, call.begun()));
                let acquired = poll_fn(|cx| call.polls(acquire.as_mut(), cx)).await;
                call.ended(&acquired);
                acquired
            }
            // Boxed, so that the future for one key stays small.
            AcquireSpecs::All(specs) => Box::pin(Self::acquire_all(core, specs)).await,
        }
    }
}
