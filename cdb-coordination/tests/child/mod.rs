//! Starts the test program as another process.

use std::process::Command;

/// This program, which runs only its ignored test `one_of_the_processes`.
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
