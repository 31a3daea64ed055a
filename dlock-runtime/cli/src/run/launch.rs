//! The last stage before the command: a process that asks the kernel to kill it when the watcher
//! dies, then becomes the command.
//!
//! The command keeps that setting, unless it is set-user-id.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use super::processes;
use crate::status;
use crate::table::visible;

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
    let (status, said) = if error.kind() == io::ErrorKind::NotFound {
        let what = format!(
            "there is no command {name:?}: check its name, the PATH and, for a script, its first line"
        );
        (status::NO_COMMAND, what)
    } else {
        let what = format!(
            "{name:?} can't be executed ({error}): check that it is a program, and its permissions"
        );
        (status::NOT_EXECUTABLE, what)
    };
    // If nobody reads it, the status says it.
    let _ = io::stderr().write_all(format!("dlock: {}\n", visible(&said)).as_bytes());
    status
}
