//! The last stage before the command: a process that asks the kernel to kill it when the watcher
//! dies, then becomes the command.
//!
//! The command keeps that setting, unless it is set-user-id.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use super::processes;
use crate::status;

/// The hidden subcommand: `<parent's pid> <command> <argument>…`. Gives a status only if the command
/// could not be started.
pub(crate) fn main(mut args: impl Iterator<Item = OsString>) -> u8 {
    let parent = args.next().and_then(|pid| pid.to_str()?.parse().ok());
    let (Some(parent), Some(program)) = (parent, args.next()) else {
        return status::INTERNAL;
    };
    if !processes::die_with_parent(parent) {
        return status::INTERNAL; // nobody would end the command
    }
    let error = Command::new(&program).args(args).exec();
    let name = program.display();
    // If nobody reads it, the status says it.
    let say = |text: String| drop(io::Write::write_all(&mut io::stderr(), text.as_bytes()));
    match error.kind() {
        io::ErrorKind::NotFound => {
            say(format!(
                "dlock: there is no command {name:?}: check its name, the PATH and, for a script, its first line\n"
            ));
            status::NO_COMMAND
        }
        _ => {
            say(format!(
                "dlock: {name:?} can't be executed ({error}): check that it is a program, and its permissions\n"
            ));
            status::NOT_EXECUTABLE
        }
    }
}
