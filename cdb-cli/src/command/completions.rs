//! `cdb completions`: prints the completion script of a shell.

use std::ffi::OsString;
use std::path::Path;

use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::args::Args;
use crate::complete;
use crate::exit::{Exit, Failure};
use crate::output::Console;

pub(crate) fn run(
    shell: Shell,
    is_static: bool,
    console: &mut Console<'_>,
) -> Result<Exit, Failure> {
    let script = if is_static {
        // `generate` panics when it cannot write, as after `cdb completions bash | head`.
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut Args::command(), console.program, &mut script);
        script
    } else {
        complete::script(&shell.to_string(), &path(console.program), console.program)?
    };
    console.out.write_all(&script)?;
    Ok(Exit::Ok)
}

/// Returns the path by which the process was called. An embedding program may have passed another
/// name: then that name.
fn path(program: &str) -> OsString {
    let path = std::env::args_os().next().unwrap_or_default();
    let is_program = Path::new(&path)
        .file_stem()
        .is_some_and(|stem| stem == program);
    if is_program { path } else { program.into() }
}
