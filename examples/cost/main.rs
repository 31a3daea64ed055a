//! Measures what the attribute costs in compile time, bytes of the future, and allocations: the
//! table of `docs/notes/expansion.md`.
//!
//! `cargo run --release -p dlock-examples --example cost [-- --functions N --rounds N]` prints it on stdout, and its
//! progress on stderr. Compile time needs an otherwise idle machine; the CPU time beside it is less
//! sensitive. No server is needed.

mod allocations;
mod compile;
mod sizes;
#[cfg(test)]
mod tests;

use std::error::Error;
use std::process::Command;
use std::time::Duration;

use allocations::{Count, Counts};
use compile::{Measured, Times, VARIANTS};

type Failure = Box<dyn Error + Send + Sync>;

const FUNCTIONS: usize = 500;
const ROUNDS: usize = 5;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let (mut functions, mut rounds) = (FUNCTIONS, ROUNDS);
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let number = words
            .next()
            .map(|number| number.parse::<usize>())
            .transpose()?;
        match (word.as_str(), number) {
            ("--functions", Some(number @ 1..)) => functions = number,
            ("--rounds", Some(number @ 1..)) => rounds = number,
            _ => return Err("arguments: --functions N and --rounds N, or none".into()),
        }
    }
    let (load, counts, sizes) = (load(), allocations::count().await?, sizes::all().await?);
    let compiled = compile::measure(functions, rounds)?;

    let cores = std::thread::available_parallelism()?;
    println!(
        "{}, {cores} cores, load {load} before and {} after.\n",
        compiler()?,
        self::load()
    );
    for measured in &compiled {
        times(measured, functions, rounds);
    }
    println!("| a future's bytes | plain | locked | more |\n| --- | --- | --- | --- |");
    for (name, plain, locked) in sizes {
        let name = name.replace('_', " ").replace("kib", "KiB");
        println!(
            "| {name} | {plain} | {locked} | {} |",
            locked.saturating_sub(plain)
        );
    }
    println!("\n| allocations, on `memory://` | number | bytes |\n| --- | --- | --- |");
    allocated(&counts);
    Ok(())
}

fn times(measured: &Measured, functions: usize, rounds: usize) {
    let Measured { command, times } = measured;
    let [plain, ..] = times;
    println!(
        "| `cargo {command}`, {functions} functions, median of {rounds} | s | ms a function over plain | CPU, s | CPU, ms a function over plain |"
    );
    println!("| --- | --- | --- | --- | --- |");
    for ((name, _), Times { wall, cpu }) in VARIANTS.iter().zip(times) {
        let (wall, more) = (seconds(*wall), each(*wall, plain.wall, functions));
        println!(
            "| {name} | {wall} | {more} | {} | {} |",
            seconds(*cpu),
            each(*cpu, plain.cpu, functions)
        );
    }
    println!();
}

fn seconds(time: Duration) -> String {
    format!("{:.2}", time.as_secs_f64())
}

fn each(time: Duration, plain: Duration, functions: usize) -> String {
    match (
        time.saturating_sub(plain).as_micros(),
        u128::try_from(functions),
    ) {
        (0, _) | (_, Err(_)) => "–".to_owned(),
        (more, Ok(functions)) => {
            let hundredths = more / functions / 10;
            format!("{}.{:02}", hundredths / 100, hundredths % 100)
        }
    }
}

fn allocated(counts: &Counts) {
    let row = |what: &str, count: Count| {
        println!("| {what} | {} | {} |", count.allocations, count.bytes);
    };
    row("calling, before the first poll", counts.unpolled);
    row("the key alone, `lock_key!(\"item:<id>\")`", counts.key);
    row(
        "all that comes before the engine: the key, and the engine's boxed future",
        counts.before_the_engine,
    );
    row("a call of the annotated function", counts.annotated);
    row(
        "a call of the same by hand, `pool.lock(…).run(…)`",
        counts.by_hand,
    );
    row(
        "a call of an annotated function with 4 KiB in its body",
        counts.large,
    );
}

fn compiler() -> Result<String, Failure> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = Command::new(rustc).arg("--version").output()?.stdout;
    let version = String::from_utf8(version)?;
    let (version, _) = version.split_once(" (").unwrap_or((version.trim(), ""));
    Ok(version.to_owned())
}

/// The system's load, if it reports one.
fn load() -> String {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let (load, _) = load.split_once(' ').unwrap_or(("unknown", ""));
    load.to_owned()
}
