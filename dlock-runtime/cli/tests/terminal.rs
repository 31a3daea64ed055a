//! What needs a terminal: tmux is one.

use std::process::Command;
use std::time::Duration;

use dlock_harness::until_blocking;

use crate::lab::{CAP, Lab, has, signal, text};
use crate::run::held;

/// A tmux server of its own, with one pane that runs a shell.
pub(crate) struct Tmux<'a> {
    lab: &'a Lab,
}

impl<'a> Tmux<'a> {
    /// `None` if there is no tmux.
    pub(crate) fn start(lab: &'a Lab, columns: &str) -> Option<Self> {
        if !has("tmux") {
            return None;
        }
        let tmux = Self { lab };
        tmux.tmux(&[
            "-f",
            "/dev/null",
            "new-session",
            "-d",
            "-x",
            columns,
            "-y",
            "24",
            "sh",
        ]);
        let dlock = env!("CARGO_BIN_EXE_dlock");
        tmux.line(&format!("alias dlock={dlock}; PS1='ready> '; clear"));
        tmux.until("ready>");
        Some(tmux)
    }

    pub(crate) fn tmux(&self, args: &[&str]) -> String {
        let mut command = Command::new("tmux");
        command.arg("-S").arg(self.lab.path("tmux")).args(args);
        command.env("DLOCK_URL", &self.lab.url).env_remove("TMUX");
        command
            .env_remove("NO_COLOR")
            .current_dir(self.lab.path("."));
        let output = command.output().unwrap();
        assert!(output.status.success(), "{args:?}: {output:?}");
        text(&output.stdout)
    }

    pub(crate) fn keys(&self, keys: &str) {
        self.tmux(&["send-keys", keys]);
    }

    pub(crate) fn line(&self, line: &str) {
        self.tmux(&["send-keys", "-l", line]);
        self.keys("Enter");
    }

    pub(crate) fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    /// As `until_blocking`, which could not say what was on the screen instead.
    pub(crate) fn until(&self, wanted: &str) {
        let mut last = String::new();
        for _ in 0..500 {
            last = self.screen();
            if last.contains(wanted) {
                return;
            }
            std::thread::sleep(Duration::from_millis(20) * dlock_harness::wait::slow_factor());
        }
        panic!("no {wanted:?} on the screen:\n{last}");
    }
}

impl Drop for Tmux<'_> {
    fn drop(&mut self) {
        let mut command = Command::new("tmux");
        let _ = command
            .arg("-S")
            .arg(self.lab.path("tmux"))
            .arg("kill-server")
            .status();
    }
}

fn parent(pid: u32) -> u32 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let mut lines = status.lines();
    let parent = lines.find_map(|line| line.strip_prefix("PPid:")).unwrap();
    parent.trim().parse().unwrap()
}

#[test]
fn at_a_terminal_the_command_reads_and_gets_ctrl_c() {
    let lab = Lab::start();
    let Some(tmux) = Tmux::start(&lab, "100") else {
        return;
    };
    let script = "read name; n=0; trap 'n=$((n+1))' INT; trap 'echo heard' USR1; echo hello $name; while [ ! -e go ]; do sleep 0.1; done; echo $n times; exit 4";
    std::fs::write(lab.path("script"), script).unwrap();
    tmux.line("dlock run --key job -- sh script; echo status $?");
    tmux.line("ann");
    tmux.until("hello ann");
    // The terminal sends it to all, so `dlock run` passes none on. Were it to, these would be two:
    // what it passes on after the first has arrived before the second is sent.
    let run = parent(lab.watcher("job"));
    signal("INT", run);
    signal("USR1", run);
    tmux.until("heard");
    tmux.keys("C-c");
    tmux.until("^C");
    std::fs::write(lab.path("go"), "").unwrap();
    tmux.until("1 times\nstatus 4");
    lab.until_gone("job");

    // Ctrl-Z stops both, and the shell is back. The lease does not wait.
    tmux.line("dlock run --key stopped --ttl 2s --grace 200ms -- sh -c 'echo up; sleep 1000'");
    lab.watcher("stopped");
    tmux.until("up");
    tmux.keys("C-z");
    lab.until_gone("stopped");
    tmux.line("clear; fg; echo status $?");
    tmux.until("status 76");
    tmux.line("clear; dlock run --key piped -- seq 3 | tac; echo status $?");
    tmux.until("3\n2\n1\nstatus 0");
}

#[test]
fn a_closed_terminal_ends_the_command() {
    let lab = Lab::start();
    let Some(tmux) = Tmux::start(&lab, "100") else {
        return;
    };
    tmux.line("dlock run --key job --grace 500ms -- sh -c 'setsid sleep 1000 & sleep 1000'");
    lab.watcher("job");
    drop(tmux);
    lab.until_gone("job");
    until_blocking("the lock is free", CAP, || lab.left("job") < 0);
}

#[test]
fn top_draws_and_leaves_the_terminal_as_it_was() {
    let lab = Lab::start();
    let _holder = held(&lab, "item:7", &[], "sleep 1000");
    let Some(tmux) = Tmux::start(&lab, "90") else {
        return;
    };
    tmux.line("echo before; dlock top --every 100ms; echo status $?");
    tmux.until("1 held, 0 waiting");
    tmux.until("item:7");
    let screen = tmux.screen();
    assert!(!screen.contains("before"), "a screen of its own:\n{screen}");
    let _other = held(&lab, "item:8", &[], "sleep 1000");
    tmux.until("2 held, 0 waiting");
    tmux.keys("q");
    tmux.until("status 0");
    tmux.until("before");
    tmux.line("stty -a | tr ' ' '\\n' | grep -x -e echo -e icanon");
    tmux.until("icanon\necho");
    tmux.line("clear; dlock top; echo status $?");
    tmux.until("2 held");
    tmux.keys("C-c");
    tmux.until("status 0");
}

#[test]
fn a_narrow_top_cuts_its_lines() {
    let lab = Lab::start();
    let _holder = held(&lab, "item:7", &[], "sleep 1000");
    let _other = held(&lab, "a-rather-long-name-of-a-lock", &[], "sleep 1000");
    let _waits = lab.run("item:7", &["--wait", "1m"], "true");
    let Some(tmux) = Tmux::start(&lab, "100") else {
        return;
    };
    for (columns, column, lines) in [
        (
            "24",
            "KEY            WAITING",
            ["2 held, 1 waiting; read…", "KEY  ", "item:7  "],
        ),
        (
            "40",
            "HOLDER",
            ["2 held, 1 waiting; read in", "KEY  ", "item:7  "],
        ),
        (
            "45",
            "HOLDER",
            ["2 held, 1 waiting; read in", "KEY  ", "item:7  "],
        ),
        (
            "60",
            "LONGEST",
            ["2 held, 1 waiting; read in", "KEY  ", "item:7  "],
        ),
        (
            "80",
            "KIND",
            ["2 held, 1 waiting; read in", "KEY  ", "item:7  "],
        ),
    ] {
        tmux.tmux(&["resize-window", "-x", columns]);
        tmux.line("clear; dlock top --every 100ms; echo left");
        tmux.until(column); // the size may reach it late
        tmux.until("item:7");
        let screen = tmux.screen();
        let shown: Vec<_> = screen.lines().filter(|line| !line.is_empty()).collect();
        assert_eq!(shown.len(), 4, "{columns}: a line each:\n{screen}");
        for (line, begins) in shown.iter().zip(lines) {
            assert!(line.starts_with(begins), "{columns}: {begins:?}:\n{screen}");
        }
        assert!(shown[3].starts_with("a-rather"), "{screen}");
        tmux.keys("q");
        tmux.until("left");
    }
}

#[test]
fn tables_fit_the_terminal_and_colours_can_be_refused() {
    let lab = Lab::start();
    let key = "a-rather-long-name-of-a-lock:".repeat(4);
    lab.cmd(&["SET", &format!("lock:{key}"), "x", "PX", "60000"]);
    let Some(tmux) = Tmux::start(&lab, "70") else {
        return;
    };
    let dlock = env!("CARGO_BIN_EXE_dlock");
    let line = format!(
        "clear; script -qc '{dlock} ls' colours > /dev/null; NO_COLOR=1 script -qc '{dlock} ls' none > /dev/null; echo fin''ished"
    );
    tmux.line(&line);
    tmux.until("finished");
    let colours = lab.written("colours");
    assert!(colours.contains("\u{1b}[1mKEY"), "{colours:?}");
    let none = lab.written("none");
    assert!(none.contains("KEY") && !none.contains('\u{1b}'), "{none:?}");
    let widest = none
        .lines()
        .skip(1)
        .map(|line| line.trim_end().chars().count())
        .max();
    assert!(widest.unwrap() <= 70, "{none}");
}
