//! What only the commands of one connection show: who of a batch fails. A pool would ask again.

use std::sync::Arc;
use std::time::Duration;

use dlock_harness::PostgresServer;
use tokio::time::Instant;

use super::PostgresPlan;
use crate::link::clock::Clock;
use crate::link::command_error::CommandError;
use crate::link::{Link as _, joined};
use crate::rules::commands::{Acquire, Acquired, Claim, Keep};
use crate::values::config::{Address, Config};
use crate::values::ttl::Ttl;

const LONG: Duration = Duration::from_secs(20);

/// The statement of a batch waits for a row that a stranger has made and not committed.
#[tokio::test]
async fn a_row_that_a_stranger_keeps_locked_fails_only_itself() {
    let server = PostgresServer::start();
    let config = Config::new(server.url("locks")).command_timeout(LONG);
    config.clone().migrate().await.unwrap();
    let settings = Arc::new(config.check().unwrap());
    let Address::Postgres(address) = &settings.address else {
        panic!("an address of PostgreSQL");
    };
    let plan = PostgresPlan::new(address, &settings, Clock::real());
    let [link, stranger] = [(); 2].map(|()| plan.connect());
    let (link, stranger) = joined::both(link, stranger).await;
    let (link, stranger) = (link.unwrap(), stranger.unwrap());
    let text = "BEGIN; INSERT INTO locks.lock (key) VALUES ('k5')";
    stranger.client.batch_execute(text).await.unwrap();
    let command = |number: u32| Acquire {
        claim: Claim {
            key: format!("k{number}").into(),
            value: format!("of {number}").into(),
            queues: false,
            is_once: false,
        },
        lease: Ttl::new(LONG).unwrap(),
        not_after: u64::MAX,
        repair_missing_ttl: None,
    };
    let commands: Vec<_> = (0..12).map(command).collect();
    let begun = Instant::now();
    let taken = commands.iter().map(|it| link.acquire(it, LONG));
    for (number, taken) in joined::all(taken.collect()).await.into_iter().enumerate() {
        match taken {
            Ok(Acquired::Granted { .. }) => assert_ne!(number, 5),
            Err(CommandError::Unsent(_)) => assert_eq!(number, 5, "after {:?}", begun.elapsed()),
            other => panic!("{number}: {other:?}"),
        }
    }
    stranger.client.batch_execute("ROLLBACK").await.unwrap();
    let given = commands
        .iter()
        .map(|it| link.release(&it.claim, Keep::NOT, LONG));
    for (number, given) in joined::all(given.collect()).await.into_iter().enumerate() {
        assert_eq!(given.unwrap().found, number != 5, "{number}");
    }
}
