//! A node of a cluster that says what a test wants. It keeps no data, and grants nothing.

use std::net::TcpListener;

use dlock_harness::fake::{Fake, Says, bulk, honest, listener};

/// Answers as a master of a cluster does, but what `answers` answers. A command is its words in
/// upper case.
pub(crate) fn liar(
    listener: TcpListener,
    answers: impl Fn(&str) -> Option<Says> + Send + Sync + 'static,
) -> Fake {
    Fake::at(listener, move |asked| {
        let says = answers(&asked.to_uppercase());
        says.unwrap_or_else(|| Says::This(of_a_master(asked)))
    })
}

/// Accepts and never says anything.
pub(crate) fn silent() -> Fake {
    liar(listener(), |_| Some(Says::This(String::new())))
}

fn of_a_master(asked: &str) -> String {
    let command = asked.to_uppercase();
    match command.split(' ').next().unwrap_or_default() {
        "HELLO" => {
            "%3\r\n$6\r\nserver\r\n$5\r\nredis\r\n$4\r\nmode\r\n$7\r\ncluster\r\n$4\r\nrole\r\n$6\r\nmaster\r\n"
                .to_owned()
        }
        // An epoch that is later than that of all others.
        "CLUSTER" => bulk("cluster_state:ok\r\ncluster_current_epoch:999"),
        "INFO" => bulk("redis_version:7.0.15"),
        "COMMAND" => "*0\r\n".to_owned(),
        _ => honest(asked),
    }
}

/// The answer to `CLUSTER SLOTS`: for each range its first and last slot, and its master.
pub(crate) fn slots<'a>(ranges: impl IntoIterator<Item = (i64, i64, &'a str, i64)>) -> String {
    let range = |(first, last, name, port): (_, _, &str, _)| {
        let node = format!("*3\r\n{}:{port}\r\n$2\r\nid\r\n", bulk(name));
        format!("*3\r\n:{first}\r\n:{last}\r\n{node}")
    };
    let ranges: Vec<_> = ranges.into_iter().map(range).collect();
    format!("*{}\r\n{}", ranges.len(), ranges.concat())
}
