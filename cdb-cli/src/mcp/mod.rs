//! `cdb mcp`: the subcommands as tools of the Model Context Protocol, on standard input and output.
//!
//! A tool is made out of the definition of its subcommand, and a call runs the subcommand with
//! `--json`. A subcommand with `--dry-run` changes something: its tool exists with `--allow-actions`
//! only, and its first call is the dry run, whose answer holds what the second call must carry.

mod arguments;
mod call;
mod confirm;
mod server;
mod tool;

use futures::future::LocalBoxFuture;

use crate::exit::Exit;

pub(crate) use server::serve;
pub(crate) use tool::Tools;

/// What a run of the command wrote, and its exit code.
#[derive(Debug)]
pub(crate) struct Answer {
    pub exit: Exit,
    pub out: Vec<u8>,
    pub err: Vec<u8>,
}

/// Runs the command with arguments, without the program's name.
pub(crate) type Run<'a> = dyn Fn(Vec<String>) -> LocalBoxFuture<'a, Answer> + 'a;
