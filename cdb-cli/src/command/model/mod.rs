//! `cdb model`: the document types of the container, and the index that serves each query.

mod described;
mod svg;

use clap::{Args, ValueEnum};

use crate::exit::{Exit, Failure};
use crate::model::Model;
use crate::output::Console;
use described::Described;

#[derive(Debug, Args)]
pub(crate) struct ModelArgs {
    /// Draw a diagram of the types instead of the list
    #[arg(long, value_enum)]
    diagram: Option<Diagram>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Diagram {
    /// A class diagram in Mermaid, which GitHub and mdBook render
    Mermaid,
    /// An SVG picture
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
