//! The command `dlock`: runs a program under a distributed lock, and shows an operator what the
//! locks of a server are doing.
//!
//! `args` are the arguments, `status` the exit statuses, `output` is what is printed, and each
//! subcommand has a module of its own; `run` is the only one that holds a lock for others. All of
//! them use the public face of `dlock-runtime` and nothing else.

#[cfg(not(unix))]
compile_error!("`dlock` needs process groups and signals, so it runs on Unix-like systems only");

mod args;
mod bench;
mod check;
mod locks;
#[cfg(feature = "postgres")]
mod migrate;
mod output;
mod run;
mod server;
mod status;
mod table;
mod values;
mod waiting;

use std::ffi::OsString;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _};

use self::args::{Cli, Command};
use self::output::Notices;
use self::status::Failure;

fn main() -> ExitCode {
    if let Some(status) = run::hidden(std::env::args_os().skip(1)) {
        return status.into();
    }
    // Before the arguments are parsed, so that their errors are in the form that was asked for.
    let notices = Notices {
        json: arguments().any(|argument| argument == "--json"),
    };
    match parse().and_then(|cli| cli.map_or(Ok(0), |cli| start(cli, notices))) {
        Ok(status) => status.into(),
        Err(failure) => {
            notices.fail(&failure);
            failure.status.into()
        }
    }
}

/// The words of the command line up to a `--`.
fn arguments() -> impl Iterator<Item = OsString> {
    std::env::args_os().take_while(|argument| argument != "--")
}

/// The arguments; `None` if the help or the version was asked for, and is printed.
fn parse() -> Result<Option<Cli>, Failure> {
    let error = match Cli::try_parse() {
        Ok(cli) => return Ok(Some(cli)),
        Err(error) => args::on_one_line(error),
    };
    let text = error.render();
    if error.use_stderr() {
        let words: Vec<_> = std::env::args_os().skip(1).collect();
        if let Some(what) = args::advice(&error, &words) {
            return Err(Failure::usage(what));
        }
        let text = text.to_string();
        let text = text.strip_prefix("error: ").unwrap_or(&text);
        return Err(Failure::usage(text.trim_end()));
    }
    let text = if output::has_colours() {
        text.ansi().to_string()
    } else {
        text.to_string()
    };
    output::print(&text).map(|()| None)
}

/// Whether enough files can be opened: for its runtime, which panics otherwise, connections and, of
/// `run`, the process that watches the command, which inherits the limit.
fn check_open_files() -> Result<(), Failure> {
    const PAIRS: usize = 12;
    let pairs: std::io::Result<Vec<_>> = (0..PAIRS).map(|_| UnixStream::pair()).collect();
    pairs.map(drop).map_err(|error| {
        Failure::internal(format!(
            "can't open the files that it needs ({error}), nothing was done: raise the limit, such as by `ulimit -n 256`"
        ))
    })
}

fn start(cli: Cli, notices: Notices) -> Result<u8, Failure> {
    check_open_files()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| Failure::internal(format!("can't start its threads: {error}")))?;
    let ended = runtime.block_on(dispatch(cli, notices));
    // A name that is being resolved may block its thread, for which a drop would wait.
    runtime.shutdown_background();
    ended
}

async fn dispatch(cli: Cli, notices: Notices) -> Result<u8, Failure> {
    let url = cli.url.as_deref();
    match cli.command {
        Command::Run(args) => run::run(args, url, notices).await,
        Command::Lead(args) => run::lead::lead(args, url, notices).await,
        Command::Wait(args) => waiting::wait(args, url, notices).await,
        Command::Ls(args) => locks::list(args, url, notices).await,
        Command::Show(args) => locks::show(args, url, notices).await,
        Command::Evict(args) => locks::evict(args, url, notices).await,
        Command::Top(args) => locks::top(args, url, notices).await,
        Command::Check => check::check(url, notices).await,
        #[cfg(feature = "postgres")]
        Command::Migrate { print } => migrate::migrate(print, url).await,
        Command::Bench(args) => bench::bench(args, url, notices).await,
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "dlock", &mut script);
            output::print(&String::from_utf8_lossy(&script)).map(|()| 0)
        }
    }
}
