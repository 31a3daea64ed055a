//! The program as a user starts it: its output, and its exit status. It is this test binary,
//! started again. A [`Run`] is also what other tests look at from outside.

use std::process::{Command, Output, Stdio};
use std::time::Duration;

use dlock_harness::wait::within;
use dlock_harness::{RedisServer, until};
use redis::aio::MultiplexedConnection;
use rustix::process::{Pid, Signal, getpgid, kill_process, kill_process_group};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::task::JoinHandle;

/// Longer than any of these takes.
pub(super) const CAP: Duration = Duration::from_secs(30);

const WORDS: &str = "MARKET_TEST_WORDS";

/// The program itself, if a test below started this process; otherwise nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn itself() {
    if let Ok(words) = std::env::var(WORDS) {
        let words = words.split_terminator(' ').map(str::to_owned);
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

/// How the program ended, and what it wrote.
pub(super) struct Ended {
    pub(super) status: Option<i32>,
    pub(super) said: String,
    pub(super) told: String,
}

/// A program that runs on a server of its own.
pub(super) struct Run {
    pub(super) server: RedisServer,
    program: Pid,
    output: JoinHandle<std::io::Result<Output>>,
}

impl Run {
    pub(super) fn start(words: &str) -> Self {
        let server = RedisServer::start();
        let (program, output) = begin(words, Some(&server.url()));
        Self {
            server,
            program,
            output,
        }
    }

    /// The name of the run in hand, once something was bought.
    pub(super) async fn market(&self) -> String {
        until("something was bought", CAP, async || {
            self.server.commandstats("hincrby").await > 0
        })
        .await;
        let keys = self.server.keys().await;
        let mut names = keys.iter().filter_map(|key| key.strip_suffix(":users:1"));
        names.next().unwrap().to_owned()
    }

    /// Ends the run in hand.
    pub(super) async fn interrupted(self) -> Ended {
        kill_process(self.program, Signal::INT).unwrap();
        ended(self.output).await
    }

    /// Waits until it has ended by itself; it left nothing at the server.
    pub(super) async fn ended(self) -> Ended {
        let ended = ended(self.output).await;
        assert_eq!(self.server.keys().await, Vec::<String>::new());
        ended
    }
}

fn begin(words: &str, url: Option<&str>) -> (Pid, JoinHandle<std::io::Result<Output>>) {
    let mut program = tokio::process::Command::from(program(words, url));
    let child = program.kill_on_drop(true).spawn().unwrap();
    let id = Pid::from_raw(child.id().unwrap().try_into().unwrap()).unwrap();
    (id, tokio::spawn(child.wait_with_output()))
}

async fn output(words: &str, url: Option<&str>) -> Ended {
    ended(begin(words, url).1).await
}

async fn ended(output: JoinHandle<std::io::Result<Output>>) -> Ended {
    let output = within(CAP, output).await.expect("it ends").unwrap();
    let output = output.unwrap();
    let [said, told] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    Ended {
        status: output.status.code(),
        said,
        told,
    }
}

/// Of each: the arguments, and what is wrong.
const MISTAKES: [(&str, &str); 11] = [
    ("--seconds 0", "--seconds 0: not a whole number, 1 to 60"),
    ("--seconds 61", "--seconds 61: not a whole number, 1 to 60"),
    ("--seconds -1", "--seconds -1: not a whole number, 1 to 60"),
    (
        "--seconds 1.5",
        "--seconds 1.5: not a whole number, 1 to 60",
    ),
    (
        "--way item --seconds 3s",
        "--seconds 3s: not a whole number, 1 to 60",
    ),
    ("--seconds  ", "--seconds : not a whole number, 1 to 60"),
    ("--way item --seconds", "--seconds needs a value"),
    ("--svg", "--svg needs a value"),
    ("--svg a.svg --way none", "--way none: not one of the ways"),
    ("--fast", "`--fast` is no argument"),
    ("3", "`3` is no argument"),
];

#[tokio::test]
async fn mistakes_say_what_is_wrong() {
    for (words, wrong) in MISTAKES {
        let Ended { status, told, .. } = output(words, Some("memory://")).await;
        let usage = "arguments: [--seconds 1-60] [--way watch|market|item] [--svg FILE]; --help explains them";
        assert_eq!(told, format!("market: {wrong}; {usage}\n"), "{words}");
        assert_eq!(status, Some(1), "{words}");
    }
}

/// Help wins over all other arguments, and starts no server.
#[tokio::test]
async fn help() {
    for words in ["--help", "-h", "--seconds 0 --help"] {
        let Ended { status, said, told } = output(words, Some("memory://")).await;
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
    let Ended { status, told, .. } = output("", Some("memory://")).await;
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
    let Ended { status, told, .. } = output("", Some(&server.url())).await;
    assert_eq!(status, Some(1));
    assert!(
        told.starts_with("market: the lock server can't be reached: check that it runs"),
        "{told}"
    );
    assert!(
        told.lines().count() == 1 && !told.contains("panicked"),
        "{told}"
    );
}

#[tokio::test]
async fn a_whole_run_with_its_picture() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("market.svg");
    let words = format!("--svg {} --seconds 1", file.display());
    let run = Run::start(&words).ended().await;
    let Ended { status, said, told } = run;
    assert_eq!(status, Some(0), "{told}");
    let picture = std::fs::read_to_string(file).unwrap();
    assert!(picture.contains("5 sell, 5 buy"));
    for way in ["WATCH/MULTI/EXEC", "one lock", "lock per item"] {
        for size in ["1/1", "5/1", "5/5"] {
            let row = format!("| {way} | {size} | ");
            let rows = said.lines().filter(|line| line.starts_with(&row));
            assert_eq!(rows.count(), 1, "{said}");
            assert!(told.contains(&format!("{way}, {size}: 1 s …")), "{told}");
        }
        assert!(picture.contains(way), "{way}");
    }
    assert!(said.contains("\nAudited after each run (9): "), "{said}");
    explains_the_columns(&said);
}

#[tokio::test]
async fn without_arguments_a_run_lasts_for_three_seconds() {
    let run = Run::start("");
    run.market().await;
    let Ended { status, told, .. } = run.interrupted().await;
    assert_eq!(status, Some(130), "{told}");
    assert!(told.starts_with("WATCH/MULTI/EXEC, 1/1: 3 s …\n"), "{told}");
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
