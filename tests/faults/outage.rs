//! What happens to a server as a whole, to its data or to the wire to it: how it begins, and how it
//! ends. `outages`, `loss` and `waiting_connections` have a test for each that concerns them.

use std::time::Duration;

use crate::lab::{Lab, ON_SERVER};
use crate::waiters::W;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Outage {
    BlackHole,
    /// All connections are reset, and new ones are made into it.
    BlackHoleOfNewConnections,
    /// Commands are executed, and their answers are lost.
    Mute,
    Deaf,
    Stalled,
    Refused,
    Slow,
    Cut,
    /// The server ends the connection over which it pushes.
    Killed,
    ServerDead,
    ServerStopped,
    ServerWithoutData,
    Emptied,
    Deleted,
    QueueDeleted,
    ScriptsForgotten,
}

impl Outage {
    pub(crate) async fn begins(self, lab: &Lab) {
        let (server, proxy) = (&lab.server, &lab.proxy);
        let words: &[&str] = match self {
            Self::BlackHole => return proxy.blackhole(),
            Self::BlackHoleOfNewConnections => {
                proxy.cut_all();
                return proxy.blackhole();
            }
            Self::Mute => return proxy.drop_replies(),
            Self::Deaf => return proxy.drop_requests(),
            Self::Stalled => return proxy.stall(),
            Self::Refused => {
                proxy.refuse();
                return proxy.cut_all();
            }
            Self::Slow => return proxy.delay(Duration::from_secs(2)),
            Self::Cut => return proxy.cut_all(),
            Self::Killed => &["CLIENT", "KILL", "TYPE", "pubsub"],
            Self::ServerDead => return server.kill9(),
            Self::ServerStopped => return server.stop_signal(),
            Self::ServerWithoutData => return server.restart_empty(),
            Self::Emptied => &["FLUSHALL"],
            Self::Deleted => &["DEL", ON_SERVER],
            Self::QueueDeleted => &["DEL", W],
            Self::ScriptsForgotten => &["SCRIPT", "FLUSH"],
        };
        server.cmd(words).await;
    }

    pub(crate) fn ends(self, lab: &Lab) {
        match self {
            Self::ServerDead => lab.server.restart_empty(),
            Self::ServerStopped => lab.server.cont(),
            _ => lab.proxy.pass(),
        }
    }

    /// Whether it goes on until it is ended.
    pub(crate) fn lasts(self) -> bool {
        use Outage::{BlackHole, Deaf, Mute, ServerDead, ServerStopped, Stalled};
        matches!(
            self,
            BlackHole | Mute | Deaf | Stalled | ServerDead | ServerStopped
        )
    }

    /// Whether the lock of the item goes.
    pub(crate) fn takes_the_lock(self) -> bool {
        matches!(
            self,
            Self::ServerWithoutData | Self::Emptied | Self::Deleted
        )
    }
}

/// Tests that call one function, each with one of these.
macro_rules! tests_of {
    ($check:ident: $($name:ident $outage:ident),* $(,)?) => {$(
        #[tokio::test]
        async fn $name() {
            $check(crate::outage::Outage::$outage).await;
        }
    )*};
}
pub(crate) use tests_of;
