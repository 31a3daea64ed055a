//! The arguments of an attribute, as a constant.
//!
//! Never in this folder: a check. The macro has made it, and the request makes it again with the
//! pool's settings.

mod name;
#[cfg(feature = "sites")]
mod sites;

use std::panic::Location;
use std::sync::OnceLock;
use std::time::Duration;

use crate::driver::locked_future::OnLost;
use crate::driver::pool::LockPool;
use crate::driver::request::{Keys, LockRequest};
use crate::values::bounds::AfterCrash;
use crate::values::class::Site;
use crate::values::release::Release;
use crate::values::ttl::Renew;
use crate::values::wait::Wait;

#[cfg(feature = "sites")]
pub use sites::{AnnotatedLock, KeySource, site, sites};

/// What an attribute says; `None` where it says nothing, so that the pool decides.
///
/// Times are milliseconds: the macro has read and checked them. Generated code writes it as a chain
/// of calls, which compiles faster than a struct literal full of paths.
#[derive(Debug)]
pub struct Spec {
    /// Named without the type of a method.
    site: Site,
    /// The compiler's name of something inside the function.
    inside: Option<fn() -> &'static str>,
    function: OnceLock<&'static str>,
    ttl: Option<Duration>,
    wait: Option<Wait>,
    renew: Option<Renew>,
    max_hold: Option<Duration>,
    max_renewals: Option<u32>,
    min_hold: Option<Duration>,
    once_per: Option<Duration>,
    after_crash: Option<AfterCrash>,
    kind: SpecKind,
    fair: bool,
    release: Option<Release>,
    on_lost: OnLost,
    /// A body that still runs when a shutdown's grace is over runs to its end.
    finishes_at_shutdown: bool,
    /// The name of a pool.
    pool: Option<&'static str>,
}

/// The kind, as far as it is known before the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SpecKind {
    Exclusive,
    Read,
    Write,
    Permits(u32),
    PermitsTaken { of: u32, take: u32 },
    Reentrant,
}

impl Spec {
    /// `name` is `module::function`; file and line are those of the attribute, where the expansion
    /// places this call.
    #[must_use]
    #[track_caller]
    pub const fn new(name: &'static str) -> Self {
        Self {
            site: Site::of_function(name, Location::caller()),
            inside: None,
            function: OnceLock::new(),
            ttl: None,
            wait: None,
            renew: None,
            max_hold: None,
            max_renewals: None,
            min_hold: None,
            once_per: None,
            after_crash: None,
            kind: SpecKind::Exclusive,
            fair: false,
            release: None,
            on_lost: OnLost::Cancel,
            finishes_at_shutdown: false,
            pool: None,
        }
    }

    /// With something that is written inside the function: its type's name has that of the type
    /// whose method this is, which no macro can see.
    #[must_use]
    pub const fn inside<T: Copy>(mut self, _: T) -> Self {
        self.inside = Some(std::any::type_name::<T>);
        self
    }

    /// Takes file and line from this call: an attribute below another one is expanded where the
    /// topmost stands.
    #[must_use]
    #[track_caller]
    pub const fn here(mut self) -> Self {
        self.site = self.site.moved(Location::caller());
        self
    }

    #[must_use]
    pub const fn ttl(mut self, millis: u64) -> Self {
        self.ttl = Some(Duration::from_millis(millis));
        self
    }

    #[must_use]
    pub const fn wait(mut self, millis: u64) -> Self {
        self.wait = Some(Wait::For(Duration::from_millis(millis)));
        self
    }

    #[must_use]
    pub const fn wait_once(mut self) -> Self {
        self.wait = Some(Wait::Once);
        self
    }

    #[must_use]
    pub const fn wait_forever(mut self) -> Self {
        self.wait = Some(Wait::Forever);
        self
    }

    #[must_use]
    pub const fn renew(mut self) -> Self {
        self.renew = Some(Renew::Default);
        self
    }

    #[must_use]
    pub const fn renew_every(mut self, millis: u64) -> Self {
        self.renew = Some(Renew::Every(Duration::from_millis(millis)));
        self
    }

    #[must_use]
    pub const fn max_hold(mut self, millis: u64) -> Self {
        self.max_hold = Some(Duration::from_millis(millis));
        self
    }

    #[must_use]
    pub const fn max_renewals(mut self, number: u32) -> Self {
        self.max_renewals = Some(number);
        self
    }

    #[must_use]
    pub const fn min_hold(mut self, millis: u64) -> Self {
        self.min_hold = Some(Duration::from_millis(millis));
        self
    }

    #[must_use]
    pub const fn once_per(mut self, millis: u64) -> Self {
        self.once_per = Some(Duration::from_millis(millis));
        self
    }

    /// A crashed run counts until its period is over.
    #[must_use]
    pub const fn skip_after_crash(mut self) -> Self {
        self.after_crash = Some(AfterCrash::Skip);
        self
    }

    #[must_use]
    pub const fn read(mut self) -> Self {
        self.kind = SpecKind::Read;
        self
    }

    #[must_use]
    pub const fn write(mut self) -> Self {
        self.kind = SpecKind::Write;
        self
    }

    #[must_use]
    pub const fn permits(mut self, of: u32) -> Self {
        self.kind = SpecKind::Permits(of);
        self
    }

    /// Call it after [`permits`](Self::permits).
    #[must_use]
    pub const fn take(mut self, take: u32) -> Self {
        if let SpecKind::Permits(of) = self.kind {
            self.kind = SpecKind::PermitsTaken { of, take };
        }
        self
    }

    /// An owner, if there is one, is only known at the call.
    #[must_use]
    pub const fn reentrant(mut self) -> Self {
        self.kind = SpecKind::Reentrant;
        self
    }

    #[must_use]
    pub const fn fair(mut self) -> Self {
        self.fair = true;
        self
    }

    #[must_use]
    pub const fn release_confirmed(mut self) -> Self {
        self.release = Some(Release::Confirmed);
        self
    }

    #[must_use]
    pub const fn release_background(mut self) -> Self {
        self.release = Some(Release::Background);
        self
    }

    #[must_use]
    pub const fn release_strict(mut self) -> Self {
        self.release = Some(Release::Strict);
        self
    }

    /// A body that has lost its lock runs to its end, and so does one that a shutdown meets.
    #[must_use]
    pub const fn finish_when_lost(mut self) -> Self {
        self.on_lost = OnLost::Finish;
        self.finish_at_shutdown()
    }

    /// A shutdown does not stop the body.
    #[must_use]
    pub const fn finish_at_shutdown(mut self) -> Self {
        self.finishes_at_shutdown = true;
        self
    }

    #[must_use]
    pub const fn pool(mut self, name: &'static str) -> Self {
        self.pool = Some(name);
        self
    }

    /// The function's name, with the type of a method.
    fn function(&'static self) -> &'static str {
        let plain = self.site.function().unwrap_or_default();
        let full = || self.inside.and_then(|inside| name::of_function(inside()));
        self.function
            .get_or_init(|| full().map_or(plain, |full| full.leak()))
    }

    pub(super) const fn on_lost(&self) -> OnLost {
        self.on_lost
    }

    pub(super) const fn pool_name(&self) -> Option<&'static str> {
        self.pool
    }

    pub(super) fn request(&'static self, pool: &LockPool, keys: Keys) -> LockRequest {
        let site = self.site.named(self.function());
        let mut request = LockRequest::new(pool.core().clone(), keys, site);
        if let Some(ttl) = self.ttl {
            request = request.ttl(ttl);
        }
        if let Some(wait) = self.wait {
            request = request.wait(wait);
        }
        request = match self.renew {
            Some(Renew::Default) => request.renew(),
            Some(Renew::Every(interval)) => request.renew_every(interval),
            None => request,
        };
        if let Some(max_hold) = self.max_hold {
            request = request.max_hold(max_hold);
        }
        if let Some(max_renewals) = self.max_renewals {
            request = request.max_renewals(max_renewals);
        }
        if let Some(min_hold) = self.min_hold {
            request = request.min_hold(min_hold);
        }
        if let Some(period) = self.once_per {
            request = request.once_per(period);
        }
        if let Some(after_crash) = self.after_crash {
            request = request.after_crash(after_crash);
        }
        request = match self.kind {
            SpecKind::Exclusive => request,
            SpecKind::Read => request.read(),
            SpecKind::Write => request.write(),
            SpecKind::Permits(of) => request.permits(of),
            SpecKind::PermitsTaken { of, take } => request.permits(of).take(take),
            SpecKind::Reentrant => request.reentrant(),
        };
        if self.fair {
            request = request.fair();
        }
        if !self.finishes_at_shutdown {
            request = request.stopped_at_shutdown();
        }
        match self.release {
            Some(release) => request.release(release),
            None => request,
        }
    }
}

#[cfg(test)]
mod tests;
