//! Measures what the attribute costs the user's compiler: a crate of many functions, with and
//! without it.
//!
//! The crate is written into a temporary folder, and checked and built there; its dependencies are
//! built before, apart. Rounds alternate between the variants, so that the machine's other work
//! affects all of them. The medians count.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use super::Failure;

/// A variant's package, and the attribute above each of its functions.
pub(crate) const VARIANTS: [(&str, &str); 3] = [
    ("plain", ""),
    (
        "distributed_lock",
        "#[distributed_lock(key = \"item:<id>\", ttl = \"10s\", renew)]\n",
    ),
    ("instrument", "#[tracing::instrument]\n"),
];

/// The medians of one variant.
#[derive(Clone, Copy, Default)]
pub(crate) struct Times {
    pub(crate) wall: Duration,
    /// User and system time of all processes of that run; zero if the system does not report it.
    pub(crate) cpu: Duration,
}

/// One `cargo` command, for each of [`VARIANTS`].
pub(crate) struct Measured {
    pub(crate) command: &'static str,
    pub(crate) times: [Times; VARIANTS.len()],
}

pub(crate) fn measure(functions: usize, rounds: usize) -> Result<Vec<Measured>, Failure> {
    let folder = tempfile::tempdir()?;
    write_crates(folder.path(), functions)?;
    ["check", "build"]
        .map(|command| of(command, folder.path(), rounds))
        .into_iter()
        .collect()
}

fn of(command: &'static str, folder: &Path, rounds: usize) -> Result<Measured, Failure> {
    eprintln!("cargo {command}: the dependencies first, which takes a minute or two");
    cargo(command, folder, &["--workspace"])?;
    let mut taken = VARIANTS.map(|_| Vec::new());
    for round in 1..=rounds {
        eprintln!("cargo {command}: round {round} of {rounds}");
        for ((name, _), taken) in VARIANTS.iter().zip(&mut taken) {
            let source = folder.join(name).join("lib.rs");
            File::options()
                .append(true)
                .open(source)?
                .set_modified(SystemTime::now())?;
            taken.push(cargo(command, folder, &["--package", name])?);
        }
    }
    let times = taken.map(|taken| Times {
        wall: median(taken.iter().map(|times| times.wall)),
        cpu: median(taken.iter().map(|times| times.cpu)),
    });
    Ok(Measured { command, times })
}

fn median(times: impl Iterator<Item = Duration>) -> Duration {
    let mut times: Vec<_> = times.collect();
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

fn cargo(command: &str, folder: &Path, packages: &[&str]) -> Result<Times, Failure> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let (start, cpu) = (Instant::now(), cpu_of_children());
    let output = Command::new(cargo)
        .args([command, "--quiet", "--offline"])
        .args(packages)
        .current_dir(folder)
        .env("CARGO_TARGET_DIR", folder.join("target"))
        .env("CARGO_INCREMENTAL", "0")
        .stdin(Stdio::null())
        .output()?;
    let times = Times {
        wall: start.elapsed(),
        cpu: cpu_of_children().saturating_sub(cpu),
    };
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into());
    }
    Ok(times)
}

/// User and system time of all descendants that have ended and were waited for, which Linux reports
/// in hundredths of a second.
fn cpu_of_children() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The process name, in parentheses, may contain spaces; `cutime` and `cstime` are fields 16 and
    // 17, or 14 and 15 after the name.
    let (_, fields) = stat.rsplit_once(')').unwrap_or_default();
    let ticks = fields.split_whitespace().skip(13).take(2);
    Duration::from_millis(
        ticks
            .filter_map(|ticks| ticks.parse::<u64>().ok())
            .sum::<u64>()
            * 10,
    )
}

/// Writes a workspace with a package for each variant, all with the dependencies of our lock file.
fn write_crates(folder: &Path, functions: usize) -> Result<(), Failure> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("..")
        .canonicalize()?;
    fs::copy(root.join("Cargo.lock"), folder.join("Cargo.lock"))?;
    let names = VARIANTS.map(|(name, _)| name);
    let workspace = format!("[workspace]\nresolver = \"3\"\nmembers = {names:?}\n");
    fs::write(folder.join("Cargo.toml"), workspace)?;
    for (name, attribute) in VARIANTS {
        let package = folder.join(name);
        fs::create_dir(&package)?;
        fs::write(
            package.join("Cargo.toml"),
            manifest(name, &root.join("dlock-runtime")),
        )?;
        fs::write(package.join("lib.rs"), source(attribute, functions)?)?;
    }
    Ok(())
}

fn manifest(name: &str, runtime: &Path) -> String {
    format!(
        r#"[package]
name = "{name}"
edition = "2024"

[lib]
path = "lib.rs"

[dependencies]
dlock-runtime = {{ path = '{}' }}
tracing = {{ version = "0.1", default-features = false, features = ["attributes", "std"] }}
"#,
        runtime.display()
    )
}

fn source(attribute: &str, functions: usize) -> Result<String, Failure> {
    let mut source = "use dlock_runtime::LockError;\n".to_owned();
    if attribute.contains("distributed_lock") {
        source.push_str("use dlock_runtime::distributed_lock;\n");
    }
    source.push_str("\nasync fn pay(_: u64) -> Result<(), LockError> {\n    Ok(())\n}\n");
    for function in 0..functions {
        write!(
            source,
            r#"
{attribute}pub async fn purchase_{function}(id: u64, buyer: &str) -> Result<String, LockError> {{
    pay(id).await?;
    Ok(format!("{{buyer}} bought item {{id}}"))
}}
"#
        )?;
    }
    Ok(source)
}
