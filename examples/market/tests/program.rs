//! The program as a user starts it: its output, and its exit status. It is this test binary,
//! started again.

use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use dlock_harness::wait::within;
use dlock_harness::{RedisServer, until};
use redis::aio::MultiplexedConnection;
use rustix::process::{Pid, Signal, getpgid, kill_process_group};
use tokio::io::{AsyncBufReadExt as _, BufReader};

/// Longer than any of these takes.
const CAP: Duration = Duration::from_secs(30);

const WORDS: &str = "MARKET_TEST_WORDS";

/// The program itself, if a test below started this process; otherwise nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn itself() {
    if let Ok(words) = std::env::var(WORDS) {
        let words = words.split_whitespace().map(str::to_owned);
        let status = crate::status(words).await;
        std::process::exit(status.into());
    }
}

fn program(words: &str, url: Option<&str>) -> Command {
    let mut program = Command::new(std::env::current_exe().unwrap());
    program
        .args(["tests::program::itself", "--exact", "--nocapture"])
        .env(WORDS, words)
        .env_remove("DLOCK_URL")
        .envs(url.map(|url| ("DLOCK_URL", url)))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    program
}

async fn output(words: &str, url: Option<&str>) -> (Option<i32>, String, String) {
    let child = program(words, url).spawn().unwrap();
    ended(child).await
}

async fn ended(child: Child) -> (Option<i32>, String, String) {
    let output = tokio::task::spawn_blocking(move || child.wait_with_output());
    let output = within(CAP, output).await.expect("it ends").unwrap();
    let Output {
        status,
        stdout,
        stderr,
    } = output.unwrap();
    let [stdout, stderr] = [stdout, stderr].map(|text| String::from_utf8(text).unwrap());
    (status.code(), stdout, stderr)
}

#[tokio::test]
async fn a_wrong_argument() {
    let (status, _, told) = output("--seconds 0", None).await;
    assert_eq!(status, Some(1));
    assert!(told.starts_with("market: --seconds 0: not a whole number, 1 to 60; arguments: ["));
}

/// Help wins over all other arguments, and starts no server.
#[tokio::test]
async fn help() {
    for words in ["--help", "-h", "--seconds 0 --help"] {
        let (status, said, told) = output(words, Some("memory://")).await;
        assert_eq!((status, told.as_str()), (Some(0), ""));
        for option in [
            "--way watch ",
            "--way market ",
            "--way item ",
            "--seconds N ",
            "--svg FILE ",
        ] {
            assert!(said.contains(&format!("\n  {option}")), "{said}");
        }
        explains_the_columns(&said);
    }
}

/// The legend explains every column of figures.
#[track_caller]
fn explains_the_columns(said: &str) {
    for column in [
        "listed ",
        "bought ",
        "retries ",
        "mean, p99 buy ",
        "requests/s ",
        "price changed, not enough money, already sold\n",
    ] {
        assert!(said.contains(&format!("\n  {column}")), "{said}");
    }
}

#[tokio::test]
async fn no_server_in_memory() {
    let (status, _, told) = output("", Some("memory://")).await;
    assert_eq!(status, Some(1));
    assert!(
        told.starts_with("market: several connections need a server: "),
        "{told}"
    );
}

/// Prints the lock's own error, followed by the connection's.
#[tokio::test]
async fn no_server_at_all() {
    let server = RedisServer::start();
    server.kill9(); // its port stays ours
    let (status, _, told) = output("", Some(&server.url())).await;
    assert_eq!(status, Some(1));
    assert!(
        told.starts_with("market: redis can't be reached: check that it runs"),
        "{told}"
    );
    assert!(
        told.lines().count() == 1 && !told.contains("panicked"),
        "{told}"
    );
}

#[tokio::test]
async fn a_whole_run_with_its_picture() {
    let server = RedisServer::start();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("market.svg");
    let words = format!("--seconds 1 --way watch --svg {}", file.display());
    let (status, table, told) = output(&words, Some(&server.url())).await;
    assert_eq!(status, Some(0), "{told}");
    for size in ["1/1", "5/1", "5/5"] {
        let row = format!("| WATCH/MULTI/EXEC | {size} | ");
        assert_eq!(
            table.lines().filter(|line| line.starts_with(&row)).count(),
            1,
            "{table}"
        );
        assert!(
            told.contains(&format!("WATCH/MULTI/EXEC, {size}: 1 s …")),
            "{told}"
        );
    }
    assert!(table.contains("\nAudited after each run (3): "), "{table}");
    explains_the_columns(&table);
    let picture = std::fs::read_to_string(file).unwrap();
    assert!(picture.contains("WATCH/MULTI/EXEC") && picture.contains("5 sell, 5 buy"));
    assert_eq!(server.keys().await, Vec::<String>::new());
}

/// Ctrl-C in a terminal goes to the program and to all that it started. The private server must
/// survive it for the audit, and end with the program.
#[tokio::test]
async fn a_terminal_that_interrupts() {
    use std::os::unix::process::CommandExt as _;
    let mut program = tokio::process::Command::from({
        let mut program = program("--seconds 60 --way item", None);
        program.process_group(0);
        program
    });
    let mut child = program.kill_on_drop(true).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut said = async || within(CAP, lines.next_line()).await.unwrap().unwrap();
    let url = loop {
        let line = said().await.expect("it says where its server is");
        if let Some((_, url)) = line.split_once("private redis-server at ") {
            break url.to_owned();
        }
    };
    let mut redis = client(&url).await.expect("it answers");
    until("something was bought", CAP, async || {
        info(&mut redis, "commandstats")
            .await
            .contains("cmdstat_hincrby:")
    })
    .await;

    let group = Pid::from_raw(child.id().unwrap().try_into().unwrap()).unwrap();
    // The server would take some 100 ms to react to Ctrl-C, so a quick audit alone proves nothing.
    let server = process_of(&mut redis).await;
    assert_ne!(getpgid(Some(server)).unwrap(), group);
    kill_process_group(group, Signal::INT).unwrap();
    let mut rest = Vec::new();
    while let Some(line) = said().await {
        rest.push(line);
    }
    let status = within(CAP, child.wait()).await.unwrap().unwrap();
    assert_eq!(status.code(), Some(130), "{rest:#?}");
    let rows = rest
        .iter()
        .filter(|line| line.starts_with("| lock per item | 1/1 | "));
    assert_eq!(rows.count(), 1, "{rest:#?}");
    assert!(
        rest.iter()
            .any(|line| line.starts_with("Audited after each run (1): ")),
        "{rest:#?}"
    );
    assert!(client(&url).await.is_none(), "its server is still there");
}

async fn client(url: &str) -> Option<MultiplexedConnection> {
    let client = redis::Client::open(url).unwrap();
    client.get_multiplexed_async_connection().await.ok()
}

async fn info(redis: &mut MultiplexedConnection, section: &str) -> String {
    let info = redis::cmd("INFO").arg(section).query_async(redis).await;
    info.unwrap()
}

async fn process_of(redis: &mut MultiplexedConnection) -> Pid {
    let info = info(redis, "server").await;
    let mut lines = info.lines();
    let id = lines.find_map(|line| line.strip_prefix("process_id:"));
    Pid::from_raw(id.unwrap().parse().unwrap()).unwrap()
}
