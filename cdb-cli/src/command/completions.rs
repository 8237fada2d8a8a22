//! `cdb completions`: prints the completion script of a shell.

use clap::Command;
use clap_complete::Shell;

use crate::exit::{Exit, Failure};
use crate::output::Console;

pub(crate) fn run(
    shell: Shell,
    mut parser: Command,
    console: &mut Console<'_>,
) -> Result<Exit, Failure> {
    // `generate` panics when it cannot write, as after `cdb completions bash | head`.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut parser, console.program, &mut script);
    console.out.write_all(&script)?;
    Ok(Exit::Ok)
}
