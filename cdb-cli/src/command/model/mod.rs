//! `cdb model`: the document types of the container, and which index serves which query.

mod described;
mod svg;

use clap::{Args, ValueEnum};

use crate::exit::{Exit, Failure};
use crate::model::Model;
use crate::output::Console;
use described::Described;

#[derive(Debug, Args)]
pub(crate) struct ModelArgs {
    /// Draw the types instead of listing them
    #[arg(long, value_enum)]
    diagram: Option<Diagram>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Diagram {
    /// A class diagram for Mermaid, which GitHub and mdBook draw
    Mermaid,
    /// A picture, for any browser
    Svg,
}

pub(crate) fn run(
    args: &ModelArgs,
    model: &Model,
    console: &mut Console<'_>,
) -> Result<Exit, Failure> {
    let described = Described::of(model);
    match args.diagram {
        Some(Diagram::Mermaid) => console.text(&described.mermaid())?,
        Some(Diagram::Svg) => console.text(&svg::svg(&described))?,
        None => console.answer(&described)?,
    }
    Ok(Exit::Ok)
}
