//! What a backend can do, asked once for each request before anything is sent or queued.
//!
//! What one can't, and why, is a table in `values/config/refused`. Never in this folder: a command.

use crate::values::config::ServerKind;
use crate::values::error::Reason;

pub(crate) use crate::values::config::WantedOffer;

/// What a backend offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Offers {
    Everything,
    /// A Redis server that runs no scripts: the exclusive lock, one key at a time.
    WithoutScripts,
    /// PostgreSQL: everything but guarded writes.
    #[cfg_attr(
        not(feature = "postgres"),
        allow(dead_code, reason = "nobody connects to it")
    )]
    Postgres,
    /// Several servers, of which a quorum decides: every kind but permits, one key at a time.
    Quorum,
}

impl Offers {
    /// `Err`: the backend can't do that.
    #[inline]
    pub(crate) fn check(self, wanted: WantedOffer<'_>) -> Result<(), Reason> {
        let server = match self {
            Offers::Everything => return Ok(()),
            Offers::WithoutScripts => ServerKind::WithoutScripts,
            Offers::Postgres => ServerKind::Postgres,
            Offers::Quorum => ServerKind::Several,
        };
        server
            .refused(wanted)
            .map_or(Ok(()), |refused| Err(Reason::new(refused)))
    }
}

#[cfg(test)]
mod tests;
