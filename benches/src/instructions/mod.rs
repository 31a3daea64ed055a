//! Instructions: what one cycle costs the client, counted by valgrind's callgrind.
//!
//! A child process of this program runs a fixed workload under callgrind twice, the second time
//! with three times as many cycles. The difference divided by the additional cycles is the cost of
//! one cycle: start-up, connecting and first uses drop out. The rest of the machine's work hardly
//! affects instructions, so this program needs no quiet machine.
//!
//! `worker` is the child process, `profile` reads callgrind's output, `crates` assigns instructions
//! to crates.

mod crates;
mod profile;
mod worker;

use std::env;
use std::process::Command;

use crate::chapter::{Chapter, Panel, Series, number, spread};
use crate::contenders::Block;
use crate::lab::Lab;
use crate::progress::Progress;
use crate::statistics::Quartiles;
use crate::{Failure, page, part};
use crates::Crate;
use profile::{Profile, ProfiledCycle};
use worker::Workload;

pub(crate) use worker::work;

/// How many tasks run the workload, and how many cycles each has in the first run.
const SIZES: [Block; 2] = [
    Block {
        tasks: 256,
        cycles: 4,
    },
    Block {
        tasks: 1,
        cycles: 400,
    },
];

/// The second run has this many times the cycles of the first.
const LONGER: usize = 3;

const HEAD: [&str; 15] = [
    "tasks",
    "contender",
    "instructions",
    "/ raw",
    "allocations",
    "system calls",
    "clock readings",
    "dlock",
    "redis",
    "tokio",
    "std",
    "other crates",
    "allocator",
    "copying",
    "clocks, libc",
];

/// Rows of a breakdown.
const TOP: usize = 25;

pub(crate) async fn chapter(lab: &Lab) -> Result<Chapter, Failure> {
    let repeats = lab.scale.pick(3, 1);
    let mut progress = Progress::new("instructions");
    let (mut rows, mut notes, mut bars) = (Vec::new(), Vec::new(), Vec::new());
    notes.push(note(repeats));
    for block in SIZES {
        let mut raw = None;
        for workload in Workload::ALL {
            let mut cycles = Vec::new();
            for repeat in 1..=repeats {
                let (name, tasks) = (workload.name(), block.tasks);
                progress.tell(&format!("{name}, {tasks} tasks, run {repeat} of {repeats}"));
                lab.control().await?.clear().await?;
                cycles.push(measure(workload, &lab.url(), block)?);
            }
            let figures = Figures { block, cycles };
            let median = figures.median(|cycle| cycle.instructions);
            let raw = *raw.get_or_insert(median);
            rows.push(figures.row(workload, raw));
            bars.push((workload, median.zip(raw).map(|(own, raw)| own / raw)));
            if workload == Workload::Dlock {
                notes.extend(figures.breakdowns());
            }
        }
    }
    let series = |workload: Workload| {
        let own = bars.iter().filter(|(of, _)| *of == workload);
        Series {
            name: workload.name().to_owned(),
            bars: own.map(|(_, ratio)| *ratio).collect(),
        }
    };
    Ok(Chapter {
        title: "Instructions: what one cycle costs the client".to_owned(),
        notes,
        head: HEAD.to_vec(),
        rows,
        panels: vec![Panel {
            title: "Instructions of a cycle, raw = 1".to_owned(),
            groups: SIZES.map(|block| tasks(block.tasks)).to_vec(),
            series: Workload::ALL.map(series).into(),
        }],
    })
}

/// Checked before anything is measured.
pub(crate) fn is_installed() -> Result<(), Failure> {
    let asked = Command::new("valgrind").arg("--version").output();
    let missing = |why| format!("no valgrind on PATH ({why}): apt-get install valgrind").into();
    asked.map(drop).map_err(missing)
}

fn note(repeats: usize) -> String {
    format!(
        "Counted by valgrind's callgrind; runs of each row: {repeats}. The row is the difference between a run of {LONGER} times as many cycles and \
         a run of as many, divided by the additional cycles. The columns from dlock on share out the instructions by the source file that each belongs to, \
         also where it is inlined: *dlock* includes what the attribute expands to, *copying* is memcpy, memcmp and the like, *std* is core, alloc and std. \
         System calls are without clock readings, which are system calls under valgrind alone. The kernel's instructions are not counted. A \
         program runs some forty times slower under callgrind, so what depends on time weighs more than it does elsewhere."
    )
}

fn tasks(tasks: usize) -> String {
    match tasks {
        1 => "1 task".to_owned(),
        tasks => format!("{tasks} tasks"),
    }
}

/// The cost of a cycle, for one row.
fn measure(workload: Workload, url: &str, block: Block) -> Result<ProfiledCycle, Failure> {
    let more = Block {
        cycles: block.cycles * LONGER,
        ..block
    };
    let short = run(workload, url, block)?;
    let long = run(workload, url, more)?;
    Ok(ProfiledCycle::of(
        &short,
        &long,
        more.count() - block.count(),
    ))
}

/// Runs the workload in a process of its own, under callgrind.
fn run(workload: Workload, url: &str, block: Block) -> Result<Profile, Failure> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("callgrind.out");
    let mut command = Command::new("valgrind");
    command
        .args(["--tool=callgrind", "--collect-systime=nsec"])
        .args(["--compress-strings=no", "--compress-pos=no"])
        .arg(format!("--callgrind-out-file={}", file.display()))
        .arg(env::current_exe()?)
        .arg(part::WORD)
        .args(workload.words(url, block));
    let ran = command.output()?;
    if !ran.status.success() {
        let said = String::from_utf8_lossy(&ran.stderr).into_owned();
        return Err(format!(
            "{} under callgrind: {}: {said}",
            workload.name(),
            ran.status
        )
        .into());
    }
    Profile::parse(&std::fs::read_to_string(file)?)
}

/// The runs of one workload.
struct Figures {
    block: Block,
    cycles: Vec<ProfiledCycle>,
}

impl Figures {
    fn quartiles(&self, figure: impl FnMut(&ProfiledCycle) -> f64) -> Option<Quartiles> {
        Quartiles::of(self.cycles.iter().map(figure).collect())
    }

    fn median(&self, figure: impl FnMut(&ProfiledCycle) -> f64) -> Option<f64> {
        self.quartiles(figure).map(|of| of.median)
    }

    fn row(&self, workload: Workload, raw: Option<f64>) -> Vec<String> {
        let instructions = self.quartiles(|cycle| cycle.instructions);
        let ratio = instructions.zip(raw).map(|(own, raw)| own.median / raw);
        let mut row = vec![
            self.block.tasks.to_string(),
            workload.name().to_owned(),
            spread(instructions, 0),
            number(ratio, 2),
            number(self.median(|cycle| cycle.allocations), 1),
            number(self.median(|cycle| cycle.system_calls), 2),
            number(self.median(|cycle| cycle.clock_readings), 1),
        ];
        let share = |of: Crate| number(self.median(|cycle| cycle.of_crate(of)), 0);
        row.extend(Crate::ALL.map(share));
        row
    }

    /// Tables of the first run: where its instructions and allocations are.
    fn breakdowns(&self) -> Vec<String> {
        let tasks = tasks(self.block.tasks);
        let Some(cycle) = self.cycles.first() else {
            return Vec::new();
        };
        let table = |title: &str, head: &[&str], rows: &[Vec<String>]| {
            format!("dlock, {tasks}: {title}\n\n{}", page::table(head, rows))
        };
        // What happens less than once in twenty cycles is no part of a cycle.
        let pairs = |mut figures: Vec<(&str, f64)>, digits| -> Vec<Vec<String>> {
            figures.retain(|(_, figure)| *figure >= 0.05);
            let row = |(name, figure): (&str, f64)| {
                vec![format!("{figure:.digits$}"), format!("`{name}`")]
            };
            figures.into_iter().take(TOP).map(row).collect()
        };
        let functions = cycle.functions().into_iter().take(TOP);
        let functions = functions.map(|(name, own, inclusive)| {
            vec![
                format!("{inclusive:.0}"),
                format!("{own:.0}"),
                format!("`{name}`"),
            ]
        });
        vec![
            table(
                "instructions by source file",
                &["a cycle", "file"],
                &pairs(cycle.files(), 0),
            ),
            table(
                "dlock's own functions with what they call (a future that is polled inside another of the same name counts in both)",
                &["with callees", "own", "function"],
                &functions.collect::<Vec<_>>(),
            ),
            table(
                "allocations by the function that asks for them",
                &["a cycle", "function"],
                &pairs(cycle.allocators(), 2),
            ),
            table(
                "system calls by the function that makes them",
                &["a cycle", "function"],
                &pairs(cycle.system_calls_of(), 2),
            ),
        ]
    }
}
