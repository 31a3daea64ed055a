//! The statements on a real server answer like the pure machine, and leave the same, for random operations:
//! those of one statement, those of the machine over rows, and one after the other. The server's clock is a
//! number in a table, so that both have the same time. And who of a batch fails, where a pool would ask again.

use std::sync::Arc;
use std::time::Duration;

use dlock_harness::{PostgresServer, cases};
use proptest::test_runner::{Config as Cases, RngAlgorithm, TestRng, TestRunner};
use tokio::runtime::Runtime;
use tokio::time::Instant;

use super::PostgresPlan;
use super::push::OutgoingNotes;
use super::session::PostgresLink;
use super::statements::{self, NOW};
use crate::link::clock::Clock;
use crate::link::command_error::CommandError;
use crate::link::{Link, joined};
use crate::rules::Server;
use crate::rules::commands::{Acquire, Acquired, Claim, Keep, Renewal, Renewed};
use crate::rules::tests::server::rows::{Asks, ask, ask_link, steps};
use crate::rules::tests::server::windows::without_epochs;
use crate::values::config::{Address, Config};
use crate::values::report::Part;
use crate::values::ttl::Ttl;

const CAP: Duration = Duration::from_secs(20);

const KEY: &str = "k";

/// The clock of a stage.
const STAGE_NOW: &str = "(SELECT c.t FROM alike.clock c)";

const BEGIN: u64 = 1_700_000_000_000_000;

const HOUR: u64 = 3_600_000_000;

const WHOLE: Part = Part {
    from: 0,
    most: 1000,
};

/// A server, with a connection whose statements take the time from a table.
struct Stage {
    link: PostgresLink,
    direct: tokio_postgres::Client,
    _server: PostgresServer,
}

impl Stage {
    async fn new() -> Self {
        let server = PostgresServer::start();
        let config = Config::new(server.url("alike")).command_timeout(CAP);
        config.clone().migrate().await.unwrap();
        server.sql("CREATE TABLE alike.clock (t bigint); INSERT INTO alike.clock VALUES (0)");
        let settings = config.check().unwrap();
        let Address::Postgres(address) = settings.address.clone() else {
            panic!("another address");
        };
        let plan = PostgresPlan::new(&address, &Arc::new(settings), Clock::real());
        let mut link = plan.connect().await.unwrap();
        let session = Arc::get_mut(&mut link.session).unwrap();
        for statement in &mut session.statements {
            statement.text = statement.text.replace(NOW, STAGE_NOW);
            statement.prepared = None;
        }
        let mut config = tokio_postgres::Config::new();
        config.host_path(server.directory()).user("postgres");
        let (direct, connection) = config.connect(tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        Self {
            link,
            direct,
            _server: server,
        }
    }

    async fn tell(&self, text: &str) {
        self.direct.batch_execute(text).await.unwrap();
    }

    async fn is_emptied(&self) {
        self.tell("DELETE FROM alike.lock; DELETE FROM alike.waiter")
            .await;
    }

    async fn set_clock(&self, time: u64) {
        self.tell(&format!("UPDATE alike.clock SET t = {time}"))
            .await;
    }

    /// A check compares the epoch that its holder was told.
    async fn is_checked_by(&self, answer: &str) {
        let Some(told) = told_epoch(answer) else {
            return;
        };
        let row = self
            .direct
            .query_one("SELECT sole::text FROM alike.lock", &[])
            .await;
        let sole: Option<String> = row.unwrap().get(0);
        assert!(
            sole.is_none_or(|sole| sole == told),
            "{answer} is not checked"
        );
    }

    async fn case(&self, steps: &[(Asks, usize, u64)]) {
        self.is_emptied().await;
        let (mut pure, mut time) = (Server::default(), BEGIN);
        for (at, (asks, who, pass)) in steps.iter().enumerate() {
            time += pass * 1000;
            if pure.queue_ends(KEY, time).is_none() {
                // The database removes one after the other, as somebody asks.
                self.tell("DELETE FROM alike.waiter; UPDATE alike.lock SET waiting = false")
                    .await;
            }
            self.set_clock(time).await;
            if pass % 2 == 0 {
                self.link.contended.0.lock().unwrap().clear(); // the single statements have their turn
            }
            let asked = (*asks, *who);
            let (expected, _) = ask(&mut pure, asked, time, &mut OutgoingNotes::default());
            let real = ask_link(&self.link, asked, time, CAP).await.unwrap();
            // Who was granted out of the queue is told the epoch of that grant here, and there a new one.
            let (real_apart, expected) = (without_epochs(&real), without_epochs(&expected));
            assert_eq!(real_apart, expected, "{at}: {asks:?} of {who}");
            self.is_checked_by(&real).await;
            let link: &dyn Link = &self.link;
            let stored = link.inspect(&[KEY], WHOLE, CAP).await.unwrap();
            let left = stored[0].report(KEY);
            let expected = pure.inspect(KEY, WHOLE, time).report(KEY);
            assert_eq!(left, expected, "{at}: left by {asks:?} of {who}");
        }
    }
}

fn told_epoch(answer: &str) -> Option<&str> {
    let (_, told) = answer.split_once("epoch: ")?;
    told.split([',', ' ']).next()
}

#[test]
fn the_statements_answer_like_the_pure_machine() {
    let runtime = Runtime::new().unwrap();
    let stage = runtime.block_on(Stage::new());
    let cases = Cases {
        cases: cases(300),
        failure_persistence: None,
        max_shrink_iters: 500,
        ..Cases::default()
    };
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let checked = TestRunner::new_with_rng(cases, rng).run(&steps(), |steps| {
        runtime.block_on(stage.case(&steps));
        Ok(())
    });
    if let Err(difference) = checked {
        panic!("{difference}");
    }
    let _inside = runtime.enter(); // the connection is dropped with its runtime
    drop(stage);
}

/// A lease ends by the clock that there is, each grant has a higher epoch than all before, and a waiter gets its
/// turn. Of exclusive locks, and of writers, for whom the machine decides.
#[tokio::test]
async fn a_clock_that_is_set_ends_leases_and_lowers_no_epoch() {
    let stage = Stage::new().await;
    let check = statements::check("alike", 1).1.replace(NOW, STAGE_NOW);
    let (first, next) = (0, 1);
    for claims in [[0, 5], [2, 7]] {
        stage.is_emptied().await;
        let (mut time, mut epochs) = (BEGIN, [0; 2]);
        // Whose check finds its row afterwards.
        for (hours, asks, who, expected, holder) in [
            (0, Asks::Acquire, first, "Granted", Some(first)),
            (0, Asks::Acquire, next, "Queued", Some(first)),
            (-1, Asks::Poll, next, "Queued", Some(first)),
            (0, Asks::Renew, first, "Yes", Some(first)),
            (0, Asks::Release, first, "found: true", None),
            (0, Asks::Poll, next, "Yours", Some(next)),
            (1, Asks::Renew, next, "NotOurs", None),
            (0, Asks::Release, next, "found: false", None),
            (0, Asks::Acquire, first, "Granted", Some(first)),
            (0, Asks::Release, next, "found: false", Some(first)),
            (0, Asks::Acquire, next, "Queued", Some(first)),
            (1, Asks::Poll, next, "Yours", Some(next)),
            (0, Asks::Renew, first, "NotOurs", Some(next)),
            (-2, Asks::Renew, next, "Yes", Some(next)),
            (0, Asks::Release, next, "found: true", None),
            (0, Asks::Acquire, first, "Granted", Some(first)),
        ] {
            time = time.saturating_add_signed(hours * HOUR.cast_signed());
            stage.set_clock(time).await;
            let asked = (asks, claims[who]);
            let answer = ask_link(&stage.link, asked, time, CAP).await.unwrap();
            assert!(answer.contains(expected), "{asked:?}: {answer}");
            if let Some(told) = told_epoch(&answer) {
                let (told, all): (i64, _) = (told.parse().unwrap(), epochs);
                assert!(
                    all.iter().all(|it| *it < told),
                    "{asked:?}: {told} after {all:?}"
                );
                epochs[who] = told;
            }
            for (who, epoch) in epochs.into_iter().enumerate() {
                let bound = (vec![KEY], vec![epoch]);
                let rows = stage.direct.query(&check, &[&bound.0, &bound.1]).await;
                let is_held = !rows.unwrap().is_empty();
                assert_eq!(is_held, holder == Some(who), "{who} after {asked:?}");
            }
        }
    }
}

/// Nor does a sweep then remove what is held or waited at.
#[tokio::test]
async fn a_clock_that_is_set_sweeps_only_what_is_old() {
    let stage = Stage::new().await;
    let sweep = statements::sweep("alike").replace(NOW, STAGE_NOW);
    let (most, age) = (100i64, HOUR.cast_signed() * 24);
    for (key, epoch) in [("old", BEGIN - 24 * HOUR - 1), ("young", BEGIN - 22 * HOUR)] {
        let row = format!("INSERT INTO alike.lock (key, epoch) VALUES ('{key}', {epoch})");
        stage.tell(&row).await;
    }
    stage.set_clock(BEGIN).await;
    for who in [0, 5] {
        let asked = (Asks::Acquire, who);
        ask_link(&stage.link, asked, BEGIN, CAP).await.unwrap();
    }
    for (time, left) in [
        (BEGIN - HOUR, &["k", "old", "young"][..]),
        (BEGIN, &["k", "young"]),
        (BEGIN + HOUR, &["k", "young"]),
    ] {
        stage.set_clock(time).await;
        let swept = stage.direct.query(&sweep, &[&"", &most, &age]).await;
        swept.unwrap();
        let keys = "SELECT key FROM alike.lock ORDER BY key";
        let keys = stage.direct.query(keys, &[]).await.unwrap();
        let keys: Vec<String> = keys.iter().map(|row| row.get(0)).collect();
        assert_eq!(keys, left, "{time}");
    }
    let asked = (Asks::Poll, 5); // the lease has ended
    let polled = ask_link(&stage.link, asked, BEGIN + HOUR, CAP).await;
    assert!(polled.unwrap().contains("Yours"));
}

/// A server with tables, a connection of ours, and a stranger's.
async fn three() -> (PostgresServer, PostgresLink, PostgresLink) {
    let server = PostgresServer::start();
    let config = Config::new(server.url("locks")).command_timeout(CAP);
    config.clone().migrate().await.unwrap();
    let settings = Arc::new(config.check().unwrap());
    let Address::Postgres(address) = &settings.address else {
        panic!("an address of PostgreSQL");
    };
    let plan = PostgresPlan::new(address, &settings, Clock::real());
    let [link, stranger] = [(); 2].map(|()| plan.connect());
    let (link, stranger) = Box::pin(joined::both(link, stranger)).await;
    (server, link.unwrap(), stranger.unwrap())
}

fn acquire(number: u32, letter: char) -> Acquire {
    Acquire {
        claim: Claim {
            key: format!("k{number}").into(),
            value: format!("1|{letter}|t{number}|somebody|8000|0|0||h|1|f|0").into(),
            queues: false,
            is_once: false,
        },
        lease: Ttl::new(CAP).unwrap(),
        not_after: u64::MAX,
        repair_missing_ttl: None,
    }
}

/// The statement of a batch waits for a row that a stranger has made and not committed.
#[tokio::test]
async fn a_row_that_a_stranger_keeps_locked_fails_only_itself() {
    let (_server, link, stranger) = three().await;
    let text = "BEGIN; INSERT INTO locks.lock (key) VALUES ('k5')";
    stranger.client.batch_execute(text).await.unwrap();
    let commands: Vec<_> = (0..12).map(|number| acquire(number, 'x')).collect();
    let begun = Instant::now();
    let taken = commands.iter().map(|it| link.acquire(it, CAP));
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
        .map(|it| link.release(&it.claim, Keep::NOT, CAP));
    for (number, given) in joined::all(given.collect()).await.into_iter().enumerate() {
        assert_eq!(given.unwrap().found, number != 5, "{number}");
    }
}

/// Readers share a read and a write, of which a row that a stranger has locked or written fails only itself.
#[tokio::test]
async fn readers_are_renewed_together() {
    let (_server, link, stranger) = three().await;
    let commands: Vec<_> = (0..64).map(|number| acquire(number, 'r')).collect();
    let taken = commands.iter().map(|it| link.acquire(it, CAP));
    for taken in joined::all(taken.collect()).await {
        assert!(matches!(taken, Ok(Acquired::Granted { .. })), "{taken:?}");
    }
    let items = commands.into_iter().map(|it| Renewal {
        claim: it.claim,
        ttl: Ttl::new(CAP * 2).unwrap(),
    });
    let items: Vec<_> = items.collect();
    let transactions = async || {
        let text = "SELECT pg_catalog.txid_current()";
        let row = stranger.client.query_one(text, &[]).await;
        row.unwrap().get::<_, i64>(0)
    };
    let before = transactions().await;
    let all = link.renew(&items, CAP).await.unwrap();
    assert_eq!(all, vec![Renewed::Yes; items.len()]);
    assert_eq!(transactions().await - before, 2, "one of them asks");

    let text = "UPDATE locks.lock SET members = 'x' WHERE key = 'k9';
        UPDATE locks.lock SET holder = '', members = '' WHERE key = 'k7'";
    stranger.client.batch_execute(text).await.unwrap();
    let text = "BEGIN; SELECT 1 FROM locks.lock WHERE key = 'k5' FOR UPDATE";
    stranger.client.batch_execute(text).await.unwrap();
    for (number, renewed) in link.renew(&items, CAP).await.unwrap().iter().enumerate() {
        let expected = match number {
            5 | 9 => Renewed::Failed,
            7 => Renewed::NotOurs,
            _ => Renewed::Yes,
        };
        assert_eq!(*renewed, expected, "{number}");
    }
    stranger.client.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(link.renew(&items[5..6], CAP).await.unwrap(), [Renewed::Yes]);
}

/// Other readers write the row all the time, each for a while.
#[tokio::test]
async fn a_reader_is_renewed_beside_others() {
    let (_server, link, others) = three().await;
    let slow = "CREATE FUNCTION locks.slow() RETURNS trigger LANGUAGE plpgsql
        AS $$ BEGIN PERFORM pg_catalog.pg_sleep(0.005); RETURN NEW; END $$;
        CREATE TRIGGER slow BEFORE UPDATE ON locks.lock FOR EACH ROW EXECUTE FUNCTION locks.slow()";
    others.client.batch_execute(slow).await.unwrap();
    let reader = |number| {
        let mut command = acquire(number, 'r');
        command.claim.key = KEY.into();
        command
    };
    let held = reader(0);
    link.acquire(&held, CAP).await.unwrap();
    let others = Arc::new(others);
    let all = (1..=4).map(|number| (others.clone(), reader(number)));
    let all = all.map(|(link, command)| {
        tokio::spawn(async move {
            loop {
                link.acquire(&command, CAP).await.unwrap();
                let _ = link.release(&command.claim, Keep::NOT, CAP).await;
            }
        })
    });
    let all: Vec<_> = all.collect();
    let held = [Renewal {
        claim: held.claim,
        ttl: Ttl::new(CAP).unwrap(),
    }];
    for _ in 0..30 {
        assert_eq!(link.renew(&held, CAP).await.unwrap(), [Renewed::Yes]);
    }
    assert!(all.iter().all(|it| !it.is_finished()));
    all.iter().for_each(tokio::task::JoinHandle::abort);
}

/// Whose commits wait for a standby that never comes.
#[tokio::test]
async fn a_waiter_queues_without_a_flush() {
    let (_server, link, stranger) = three().await;
    let held = acquire(0, 'x');
    link.acquire(&held, CAP).await.unwrap();
    for text in [
        "ALTER SYSTEM SET synchronous_commit = on",
        "ALTER SYSTEM SET synchronous_standby_names = 'nobody'",
        "SELECT pg_catalog.pg_reload_conf()",
    ] {
        stranger.client.batch_execute(text).await.unwrap();
    }
    let within = Duration::from_secs(1);
    let mut waits = Vec::new(); // until the setting is read, a grant is one, too
    while !matches!(waits.last(), Some(Err(CommandError::Unclear(_)))) {
        let number = 1 + u32::try_from(waits.len()).unwrap();
        waits.push(link.acquire(&acquire(number, 'x'), within).await);
    }
    let mut waiter = acquire(99, 'x');
    waiter.claim = Claim {
        key: held.claim.key.clone(),
        queues: true,
        ..waiter.claim
    };
    let queued = stranger.acquire(&waiter, CAP).await;
    assert!(matches!(queued, Ok(Acquired::Queued(_))), "{queued:?}");
}
