//! Starts the test program as another process.

use std::process::Command;

/// This program, which runs only the ignored test `one_of_the_processes` of a module.
pub(crate) fn process(module: &str) -> Command {
    let program = std::env::current_exe().expect("this program");
    let mut command = Command::new(program);
    command.args([
        &format!("{module}::one_of_the_processes"),
        "--exact",
        "--ignored",
        "--nocapture",
    ]);
    command
}
