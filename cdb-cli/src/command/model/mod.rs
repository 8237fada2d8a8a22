//! `cdb model`: the document types of the container, and the index that serves each query.

mod described;
mod diff;

use clap::{Args, Subcommand, ValueEnum};

use crate::exit::{Exit, Failure};
use crate::model::Model;
use crate::output::Console;
use described::Described;
use diff::DiffArgs;

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct ModelArgs {
    #[command(subcommand)]
    command: Option<ModelCommand>,
    /// Draw a diagram of the types instead of the list
    #[arg(long, value_enum)]
    diagram: Option<Diagram>,
}

#[derive(Debug, Subcommand)]
enum ModelCommand {
    /// List the changes since an earlier build, and which of them break something
    Diff(DiffArgs),
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Diagram {
    /// A class diagram in Mermaid, which GitHub and mdBook render
    Mermaid,
}

pub(crate) fn run(
    args: &ModelArgs,
    model: &Model,
    console: &mut Console<'_>,
) -> Result<Exit, Failure> {
    if let Some(ModelCommand::Diff(diff)) = &args.command {
        return diff::run(diff, model, console);
    }
    let described = Described::of(model);
    match args.diagram {
        Some(Diagram::Mermaid) => console.text(&described.mermaid())?,
        None => console.answer(&described)?,
    }
    Ok(Exit::Ok)
}
