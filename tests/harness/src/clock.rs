//! Servers whose wall clocks are set by a test, by seconds to years, both ways.
//!
//! `clock.c` is what sets them; it is built by the C compiler that links Rust programs, too.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::server::{Builder, RedisServer};

/// The clocks of some servers.
#[derive(Debug)]
#[must_use = "dropping it removes their files"]
pub struct Clocks {
    each: Vec<Clock>,
    library: PathBuf,
    _directory: tempfile::TempDir,
}

/// A file that says by how many milliseconds a server's clock is ahead.
#[derive(Debug)]
pub struct Clock(PathBuf);

impl Clocks {
    /// So many, all right.
    pub fn new(number: usize) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let library = directory.path().join("clock.so");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/clock.c");
        let mut cc = Command::new("cc");
        cc.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library);
        let built = cc.arg(source).status().expect("a C compiler, as `cc`");
        assert!(built.success(), "{built}");
        let clock = |nth| {
            let file = directory.path().join(format!("clock-{nth}"));
            fs::write(&file, 0_i64.to_ne_bytes()).expect("write a file");
            Clock(file)
        };
        Self {
            each: (0..number).map(clock).collect(),
            library,
            _directory: directory,
        }
    }

    /// A server by the nth clock.
    pub fn server(&self, nth: usize) -> Builder {
        RedisServer::builder()
            .env("LD_PRELOAD", self.library.display().to_string())
            .env("CLOCK_AHEAD", self.each[nth].0.display().to_string())
    }
}

impl std::ops::Deref for Clocks {
    type Target = [Clock];

    fn deref(&self) -> &[Clock] {
        &self.each
    }
}

impl Clock {
    /// Sets it ahead of this machine's clock; behind, if negative.
    pub fn set(&self, seconds: i64) {
        self.set_ms(seconds * 1_000);
    }

    /// The same, in milliseconds.
    pub fn set_ms(&self, ms: i64) {
        let file = fs::OpenOptions::new().write(true).open(&self.0);
        let file = file.expect("the clock's file");
        file.write_all_at(&ms.to_ne_bytes(), 0)
            .expect("write a file");
    }
}
