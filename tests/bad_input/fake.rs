//! Servers that answer something else than a redis of today does.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use dlock_harness::fake::{Fake, Says, bulk, honest};

/// A redis, but for what it says to commands that begin like this: the first that fits.
pub(crate) fn answering(answers: &[(&'static str, &str)]) -> Fake {
    let owned = |&(command, answer): &(&'static str, &str)| (command, answer.to_owned());
    let answers: Vec<_> = answers.iter().map(owned).collect();
    Fake::start(move |asked| {
        let mut fitting = answers.iter().filter(|it| asked.starts_with(it.0));
        Says::This(
            fitting
                .next()
                .map_or_else(|| honest(asked), |it| it.1.clone()),
        )
    })
}

/// Answers HELLO and INFO with these fields; a sentinel has no TIME.
pub(crate) fn redis(version: &str, mode: &str, role: &str) -> Fake {
    let fields = [
        ("server", "redis"),
        ("version", version),
        ("mode", mode),
        ("role", role),
    ];
    let field = |(name, value): (&str, &str)| bulk(name) + &bulk(value);
    let hello = format!("%{}\r\n{}", fields.len(), fields.map(field).concat());
    let info = format!("redis_version:{version}\r\nredis_mode:{mode}\r\nrole:{role}\r\n");
    let mut answers = vec![("HELLO", hello.as_str())];
    let info = bulk(&info);
    answers.push(("INFO", &info));
    if mode == "sentinel" {
        answers.push(("TIME", "-ERR unknown command 'TIME'\r\n"));
    }
    answering(&answers)
}

/// A redis before 6.2: HELLO is unknown to Redis 5, and needs an argument from 6.0 on.
pub(crate) fn old_redis(version: &str) -> Fake {
    const UNKNOWN: &str = "-ERR unknown command `HELLO`, with args beginning with: \r\n";
    let (resp3, alone) = if version.starts_with('5') {
        (UNKNOWN, UNKNOWN)
    } else {
        (
            "%0\r\n",
            "-ERR wrong number of arguments for 'hello' command\r\n",
        )
    };
    let info = bulk(&format!(
        "redis_version:{version}\r\nredis_mode:standalone\r\n"
    ));
    answering(&[("HELLO 3", resp3), ("HELLO", alone), ("INFO", &info)])
}

/// Answers `INFO` and `EVAL` with these. Its clock is years behind.
pub(crate) fn checked(info: &str, eval: &str) -> Fake {
    let time = "*2\r\n$10\r\n1700000000\r\n$1\r\n0\r\n";
    answering(&[("INFO", info), ("EVAL", eval), ("TIME", time)])
}

/// A redis whose clock is set forward by an hour between two questions.
pub(crate) fn setting_its_clock() -> Fake {
    let (began, hours) = (Instant::now(), AtomicU64::new(0));
    Fake::start(move |asked| {
        if !asked.starts_with("TIME") {
            return Says::This(honest(asked));
        }
        let hours = hours.fetch_add(1, Ordering::SeqCst);
        let now = Duration::from_secs(1_700_000_000 + hours * 3_600) + began.elapsed();
        let (seconds, micros) = (bulk(&now.as_secs()), bulk(&now.subsec_micros()));
        Says::This(format!("*2\r\n{seconds}{micros}"))
    })
}

/// A redis behind a proxy that ends a connection at a command that it does not know.
pub(crate) fn ending_at(command: &'static str, role: &'static str) -> Fake {
    let info = format!("redis_version:7.0.0\r\nredis_mode:standalone\r\nrole:{role}\r\n");
    Fake::start(move |asked| match asked {
        _ if asked.starts_with(command) => Says::Bye,
        _ if asked.starts_with("INFO") => Says::This(bulk(&info)),
        _ => Says::This(honest(asked)),
    })
}

/// Answers every request with this.
pub(crate) fn saying(answer: &'static str) -> Fake {
    answering(&[("", answer)])
}

/// A redis whose answer to one command begins like this and has no end.
pub(crate) fn endless(command: &'static str, first: &'static str, again: &'static str) -> Fake {
    Fake::start(move |asked| {
        if asked.starts_with(command) {
            Says::Endless(first.to_owned(), again)
        } else {
            Says::This(honest(asked))
        }
    })
}
