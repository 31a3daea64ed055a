//! The pictures of `dlock show` and `dlock top` in `docs/img`, drawn from what the command prints at a
//! terminal about a [`Scene`].
//!
//! Without `DRAW` each test plays the scene at once, and checks that the command still prints what the
//! picture shows. `DRAW=1 cargo test -p dlock-cli --test command pictures` takes its time and draws:
//! hosts are the scene's, process ids and ages the run's.

use std::path::Path;

use dlock_harness::until_blocking;

use crate::drawing;
use crate::lab::{CAP, Lab};
use crate::scene::Scene;
use crate::terminal::Tmux;

/// Of the terminal: no line is cut or wrapped.
const COLUMNS: usize = 96;

#[test]
fn they_show_what_the_command_prints() {
    let lab = Lab::start();
    let Some(tmux) = Tmux::start(&lab, &COLUMNS.to_string()) else {
        return;
    };
    let is_drawn = std::env::var_os("DRAW").is_some();
    let _scene = Scene::play(&lab, is_drawn);
    tmux.line("PS1=$(printf '\\033[32m$\\033[0m ')");

    tmux.line("clear; dlock top --every 2s");
    let top = shown(
        &tmux,
        &[
            "5 held, 5 waiting; read in",
            "KEY        KIND",
            "item:7     exclusive   web-2:",
            "catalogue  read/write  web-",
            "and 1 more",
            "item:9     exclusive   web-3:",
            "nightly    exclusive   job-1:",
            "report::nightly ",
            "smtp       permits     mail-",
        ],
    );
    tmux.keys("q");
    // What is typed before the command has ended is the command's.
    until_blocking("a prompt", CAP, || tmux.screen().trim_end().ends_with('$'));

    tmux.line("clear");
    until_blocking("an empty screen", CAP, || tmux.screen().trim() == "$");
    tmux.line("dlock show catalogue");
    let show = shown(
        &tmux,
        &[
            "$ dlock show catalogue",
            "catalogue: read/write",
            "HELD BY",
            "read  web-",
            "read  web-",
            "WAITS",
            "write  job-2:",
            "import::prices",
            "read   web-2:",
        ],
    );
    let (show, _) = show.trim_end().rsplit_once('\n').unwrap(); // the next prompt
    let show = drawing::svg(
        show,
        "dlock show catalogue: two readers hold a lock; a writer waits, and a reader behind it, each with host, process, function and age.",
    );
    let top = drawing::svg(
        &top,
        "dlock top: five locks with their holders, those with the most waiters first.",
    );
    if is_drawn {
        draw("dlock-show", &show);
        draw("dlock-top", &top);
    }
}

/// The screen with its styles, once it has all of this, each behind the one before.
fn shown(tmux: &Tmux<'_>, wanted: &[&str]) -> String {
    for wanted in wanted {
        tmux.until(wanted);
    }
    let screen = tmux.screen();
    let mut rest = screen.as_str();
    for wanted in wanted {
        let at = rest.find(wanted);
        assert!(at.is_some(), "{wanted:?} is not in its place:\n{screen}");
        rest = &rest[at.unwrap_or_default() + wanted.len()..];
    }
    assert!(screen.lines().all(|line| line.chars().count() <= COLUMNS));
    tmux.tmux(&["capture-pane", "-p", "-e"])
}

fn draw(name: &str, picture: &str) {
    let images = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/img");
    std::fs::write(images.join(format!("{name}.svg")), picture).unwrap();
}
