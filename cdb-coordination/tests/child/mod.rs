//! The program of a test as a process of its own.

use std::process::Command;

/// This program, which runs nothing but its ignored test `one_of_the_processes`.
pub(crate) fn process() -> Command {
    let program = std::env::current_exe().expect("this program");
    let mut command = Command::new(program);
    command.args([
        "one_of_the_processes",
        "--exact",
        "--ignored",
        "--nocapture",
    ]);
    command
}
