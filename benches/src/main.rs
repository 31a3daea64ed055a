//! Measures dlock, the bare commands on the same connection settings, and `rslock`, side by side in
//! one run: `cargo run --release -p dlock-benches`, with `-- --quick` in less than two minutes.
//! docs/notes/benchmarks.md explains each figure.
//!
//! Figures are compared as ratios within one round, because absolute times change with whatever
//! else the machine does. Each program starts a `redis-server` of its own. Read `plan` first (what
//! is run), then `contenders` (what is compared), `rounds` (how), and the programs: `cycles` (W1,
//! W2), `contention` (W3, W4), `keeping` (W5), `market` (W6), `waiting` (W7), `growth`, `bounds`,
//! `hostile`, `instructions`, `network` (W1 to W4 behind a `wire`), `tls`, `slots`, `cluster` and
//! `quorum` (W1 and W2), `postgres` beside bare statements.
//! `part` is another process of this program.

mod bounds;
mod chapter;
mod cluster;
mod contenders;
mod contention;
mod cycles;
mod growth;
mod hostile;
mod instructions;
mod keeping;
mod lab;
mod market;
mod network;
mod page;
mod part;
mod picture;
mod pins;
mod plan;
mod postgres;
mod progress;
mod quorum;
mod rounds;
mod server_cost;
mod slots;
mod statistics;
mod tls;
mod waiting;
mod wire;

use std::error::Error;
use std::process::ExitCode;

use chapter::Chapter;
use lab::Lab;
use page::Setting;
use plan::{Plan, Program};
use tokio::runtime::Runtime;

/// Any error ends the run.
pub(crate) type Failure = Box<dyn Error + Send + Sync>;

fn main() -> ExitCode {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    if words.iter().any(|word| word == "--help") {
        println!("{}", plan::help());
        return ExitCode::SUCCESS;
    }
    let is_part = words.first().is_some_and(|word| word == part::WORD);
    let done = if is_part {
        be_part(&words.split_off(1))
    } else {
        Plan::parse(words).and_then(|plan| measure(&plan))
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            progress::clear();
            eprintln!("dlock-benches: {}", story(&*failure));
            ExitCode::FAILURE
        }
    }
}

/// The error and its causes, in one line.
pub(crate) fn story(failure: &(dyn Error + 'static)) -> String {
    let causes = std::iter::successors(failure.source(), |&cause| cause.source());
    causes.fold(failure.to_string(), |story, cause| {
        format!("{story}: {cause}")
    })
}

fn measure(plan: &Plan) -> Result<(), Failure> {
    if cfg!(debug_assertions) {
        eprintln!("dlock-benches: without --release, so these figures say nothing of dlock");
    }
    let setting = Setting::ask(plan)?;
    let runtime = runtime()?;
    let (mut chapters, mut failure) = (Vec::new(), None);
    for program in programs(plan)? {
        match chapters_of(program, plan, &setting, &runtime) {
            Ok(all) => chapters.extend(all),
            Err(why) => {
                failure = Some(why);
                break;
            }
        }
    }
    progress::clear();
    let page = page::write(&setting, &chapters);
    println!("{page}");
    let [markdown, svg] = plan.files();
    plan::write(&markdown, &page)?;
    plan::write(&svg, &picture::svg(&chapters)?)?;
    eprintln!(
        "dlock-benches: this page is in {}, its picture in {}",
        markdown.display(),
        svg.display()
    );
    // Chapters measured before the failure are written all the same.
    failure.map_or(Ok(()), Err)
}

/// The programs to run, without those whose tool is missing, unless they were asked for by name.
fn programs(plan: &Plan) -> Result<Vec<Program>, Failure> {
    let mut programs = Vec::new();
    for &program in &plan.programs {
        let usable = match program {
            Program::Instructions => instructions::is_installed(),
            Program::Tls => tls::is_offered(),
            Program::Postgres => postgres::is_installed(),
            _ => Ok(()),
        };
        match usable {
            Ok(()) => programs.push(program),
            Err(missing) if plan.chosen => return Err(missing),
            Err(missing) => eprintln!("dlock-benches: {program:?} is left out: {missing}"),
        }
    }
    Ok(programs)
}

/// Runs a program on a server of its own.
fn chapters_of(
    program: Program,
    plan: &Plan,
    setting: &Setting,
    runtime: &Runtime,
) -> Result<Vec<Chapter>, Failure> {
    let lab = match plan.each_way {
        Some(each_way) if program.has_a_wire() => {
            Lab::start_far(plan.scale, setting.pins, each_way)
        }
        _ if program == Program::Tls => Lab::start_tls(plan.scale, setting.pins),
        _ => Lab::start(plan.scale, setting.pins),
    }?;
    runtime.block_on(async {
        let chapter = match program {
            Program::W1 => cycles::alone(&lab).await,
            Program::W2 => cycles::together(&lab).await,
            Program::W3 => contention::throughput(&lab).await,
            Program::W4 => contention::handoff(&lab).await,
            Program::W5 => keeping::chapter(&lab, plan.keep).await,
            Program::W6 => market::chapter(&lab).await,
            Program::W7 => waiting::chapter(&lab).await,
            Program::Growth => growth::chapter(&lab).await,
            Program::Hostile => hostile::chapter(&lab).await,
            Program::Bounds => bounds::chapter(&lab).await,
            Program::Network => return network::chapters(&lab, plan.each_way).await,
            Program::Tls => return tls::chapters(&lab).await,
            Program::Slots => slots::chapter(&lab).await,
            Program::Cluster => return cluster::chapters(&lab).await,
            Program::Quorum => return quorum::chapters(&lab, plan.each_way).await,
            Program::Postgres => return postgres::chapters(&lab).await,
            Program::Instructions => instructions::chapter(&lab).await,
        };
        Ok(vec![chapter?])
    })
}

/// Runs this process as the part for which it was started.
fn be_part(words: &[String]) -> Result<(), Failure> {
    match words {
        [part, url, words @ ..] if part == "player" => {
            runtime()?.block_on(contention::play(url, words))
        }
        [part, words @ ..] if part == "keeper" => runtime()?.block_on(keeping::keep(words)),
        [part, words @ ..] if part == "waiter" => runtime()?.block_on(waiting::wait(words)),
        [part, words @ ..] if part == "worker" => runtime()?.block_on(instructions::work(words)),
        [part, server, each_way] if part == "wire" => wire::carry(server, each_way),
        [part, url, messages] if part == "listener" => contention::listen(url, messages),
        _ => Err("no part of a run has these words".into()),
    }
}

/// Commands go out on the caller's runtime; with one thread, a contender's cost is its own.
fn runtime() -> Result<Runtime, Failure> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    Ok(builder.enable_all().build()?)
}
