//! A private server, a link to it, and commands that need few words.

use std::sync::Arc;
use std::time::Duration;

use dlock_harness::RedisServer;
use redis::FromRedisValue;
use redis::aio::MultiplexedConnection;

use crate::backend::Link;
use crate::backend::clock::Clock;
use crate::backend::fault::Fault;
use crate::backend::redis::connect::{Plan, connect};
use crate::backend::redis::link::RedisLink;
use crate::policy::commands::{Acquire, Acquired, Claim, Renewal};
use crate::values::config::Address;
use crate::values::error::Refusal;
use crate::values::ttl::Ttl;

/// Nothing here is about timeouts.
pub(super) const CAP: Duration = Duration::from_secs(20);
pub(super) const HOUR: u64 = 3_600_000_000;
pub(super) const FENCES: &str = "lock:@fence";

pub(super) struct Lab {
    pub(super) server: RedisServer,
    pub(super) link: RedisLink,
    /// For [`tell`](Self::tell).
    direct: MultiplexedConnection,
}

impl Lab {
    pub(super) async fn new() -> Self {
        let server = RedisServer::start();
        let link = link(&server.url()).await;
        let direct = server.connect().await;
        Self {
            server,
            link,
            direct,
        }
    }

    /// Any command, past the link; faster than the harness's own, which connects each time.
    pub(super) async fn tell<T: FromRedisValue>(&self, words: &[&str]) -> T {
        let mut command = redis::Cmd::new();
        command.arg(words);
        let answer = command.query_async(&mut self.direct.clone()).await;
        answer.unwrap_or_else(|error| panic!("{words:?}: {error}"))
    }

    pub(super) async fn acquire(&self, who: &Claim) -> Result<Acquired, Fault> {
        self.link
            .acquire(&acquire(who, self.link.server_time() + HOUR), CAP)
            .await
    }

    pub(super) async fn granted(&self, who: &Claim) -> u64 {
        match self.acquire(who).await {
            Ok(Acquired::Granted { epoch, .. }) => epoch,
            other => panic!("not granted: {other:?}"),
        }
    }

    /// Keys of locks and of the counter.
    pub(super) async fn keys(&self) -> Vec<String> {
        self.server.keys().await
    }
}

pub(super) async fn link(url: &str) -> RedisLink {
    let Ok(Address::Redis(address)) = Address::parse(url) else {
        panic!("not the URL of a redis server");
    };
    let plan = Plan {
        command_timeout: CAP,
        address,
        connect_timeout: CAP,
        max_in_flight: None,
        clock: Clock::real(),
    };
    connect(&plan).await.expect("a connection")
}

pub(super) fn claim(key: &str, value: &str) -> Claim {
    Claim {
        key: key.into(),
        value: value.into(),
    }
}

pub(super) fn seconds(ttl: u64) -> Ttl {
    Ttl::new(Duration::from_secs(ttl)).expect("a ttl within bounds")
}

/// An acquire for 30 s.
pub(super) fn acquire(who: &Claim, not_after: u64) -> Acquire {
    Acquire {
        claim: who.clone(),
        fences: Arc::from(FENCES),
        ttl: seconds(30),
        not_after,
        repair_missing_ttl: None,
    }
}

pub(super) fn renewal(who: &Claim, ttl: u64) -> Renewal {
    Renewal {
        claim: who.clone(),
        ttl: seconds(ttl),
    }
}

#[track_caller]
pub(super) fn assert_refused<T: std::fmt::Debug>(answer: Result<T, Fault>, expected: Refusal) {
    match answer {
        Err(Fault::Refused(refusal, _)) => assert_eq!(refusal, expected),
        other => panic!("not refused: {other:?}"),
    }
}
