//! Sentinels that are not what they should be.

use std::sync::atomic::{AtomicU16, Ordering};

use dlock_harness::fake::{Fake, Says, bulk, honest};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Accepts and never says anything.
    Silent,
    /// Closes each connection at once.
    Closing,
    /// One text that does not end.
    Endless,
    /// A list in a list in a list …
    Nested,
    /// A list that is said to have two thousand million items.
    Huge,
    /// Answers, and pushes the same message without a pause.
    Flooding,
    /// Names another port each time.
    Changing,
    /// Names a host that does not exist.
    Nowhere,
    /// Names a port that there can't be.
    Impossible,
    /// Names a port at which nobody can listen.
    Zero,
}

pub(crate) const ALL: [Kind; 10] = [
    Kind::Silent,
    Kind::Closing,
    Kind::Endless,
    Kind::Nested,
    Kind::Huge,
    Kind::Flooding,
    Kind::Changing,
    Kind::Nowhere,
    Kind::Impossible,
    Kind::Zero,
];

pub(crate) fn sentinel(kind: Kind) -> Fake {
    match kind {
        Kind::Closing => Fake::closing(),
        _ => Fake::start(move |asked| says(kind, asked)),
    }
}

fn says(kind: Kind, asked: &str) -> Says {
    match kind {
        Kind::Silent | Kind::Closing => Says::This(String::new()),
        Kind::Endless => Says::Endless("$2000000000\r\n".into(), "x"),
        Kind::Nested => Says::Endless(String::new(), "*1\r\n"),
        Kind::Huge => Says::Endless("*2000000000\r\n".into(), ":1\r\n"),
        Kind::Flooding if asked.to_uppercase().starts_with("SUBSCRIBE") => Says::Endless(
            honest(asked),
            ">3\r\n$7\r\nmessage\r\n$14\r\n+switch-master\r\n$30\r\nlocks 127.0.0.1 1 127.0.0.1 22\r\n",
        ),
        Kind::Flooding => names(asked, "127.0.0.1", 1),
        Kind::Changing => {
            static PORT: AtomicU16 = AtomicU16::new(1);
            names(
                asked,
                "127.0.0.1",
                PORT.fetch_add(1, Ordering::Relaxed).into(),
            )
        }
        Kind::Nowhere => names(asked, "locks.invalid", 6379),
        Kind::Zero => names(asked, "127.0.0.1", 0),
        Kind::Impossible => names(asked, "127.0.0.1", 65_536),
    }
}

fn names(asked: &str, host: &str, port: u32) -> Says {
    Says::This(if asked.to_uppercase().contains("GET-MASTER-ADDR") {
        format!("*2\r\n{}{}", bulk(host), bulk(&port))
    } else {
        honest(asked)
    })
}
