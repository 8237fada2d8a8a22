//! `cdb policy`: prints the model's indexing policy, compares it with the live policy, and replaces
//! the live policy.

mod apply;
mod comparison;
mod removal;

use std::path::PathBuf;

use clap::{Args, Subcommand};

use self::apply::{Apply, ApplyOptions};
use self::comparison::Comparison;
use crate::connection::Connection;
use crate::exit::{Exit, Failure, remedy};
use crate::model::{Model, unknown_indexes};
use crate::output::Console;

#[derive(Debug, Args)]
pub(crate) struct PolicyArgs {
    #[command(subcommand)]
    command: PolicyCommand,
}

#[derive(Debug, Subcommand)]
enum PolicyCommand {
    /// Print the model's policy, for review or for infrastructure as code
    Print {
        /// Print all that the container is created with: Bicep and Terraform read this JSON
        #[arg(long)]
        definition: bool,
    },
    /// Show the differences to the live container and the cost of each change; exit code 1 if there
    /// are any
    Diff {
        #[command(flatten)]
        compared: Compared,
    },
    /// Replace the live container's policy online, and wait until the indexes are built
    Apply {
        #[command(flatten)]
        options: ApplyOptions,
        #[command(flatten)]
        connection: Connection,
    },
    /// For CI: exit code 1 if the live container, or a file, differs from the model
    Check {
        /// Fail only for differences that make queries scan or fail, not for those that only raise
        /// the cost
        #[arg(long)]
        breaking_only: bool,
        #[command(flatten)]
        compared: Compared,
    },
}

/// What the model is compared with.
#[derive(Debug, Args)]
struct Compared {
    /// Compare with a policy file in JSON instead of the live container
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    #[command(flatten)]
    connection: Connection,
}

impl Compared {
    async fn with(&self, model: &Model) -> Result<Comparison, Failure> {
        Comparison::of(&self.connection, model, self.file.as_deref()).await
    }
}

pub(crate) async fn run(
    args: &PolicyArgs,
    model: &Model,
    console: &mut Console<'_>,
) -> Result<Exit, Failure> {
    match &args.command {
        PolicyCommand::Print { definition } => {
            let text = if *definition {
                // Strings, numbers and enums always serialize.
                serde_json::to_string_pretty(&model.definition).unwrap_or_default()
            } else {
                model.definition.indexing_policy.to_json_pretty()
            };
            console.text(&text)?;
            Ok(Exit::Ok)
        }
        PolicyCommand::Diff { compared } => {
            let comparison = compared.with(model).await?;
            console.answer(&comparison)?;
            advise(&comparison, console)?;
            Ok(comparison.exit(false))
        }
        PolicyCommand::Check {
            compared,
            breaking_only,
        } => check(&compared.with(model).await?, *breaking_only, console),
        PolicyCommand::Apply {
            connection,
            options,
        } => {
            let apply = Apply {
                connection,
                model,
                options,
            };
            apply.run(console).await
        }
    }
}

/// Says what to do about indexes that this command does not know.
fn advise(comparison: &Comparison, console: &mut Console<'_>) -> Result<(), Failure> {
    if comparison.has_unknown_indexes() {
        let remedy = remedy::for_program(unknown_indexes::REMEDY, console.program);
        console.remark(&remedy)?;
    }
    Ok(())
}

fn check(
    comparison: &Comparison,
    breaking_only: bool,
    console: &mut Console<'_>,
) -> Result<Exit, Failure> {
    let exit = comparison.exit(breaking_only);
    let (what, name) = (&comparison.compared_with, &comparison.model);
    if console.json {
        console.answer(comparison)?;
    } else if exit == Exit::Ok {
        console.text(&format!("{what} matches {name}"))?;
        advise(comparison, console)?;
    } else {
        let remedy = if comparison.is_changeable() {
            format!("`{} policy apply` changes it", console.program)
        } else {
            "a container cannot be changed in all of these respects".to_owned()
        };
        console.text(&format!(
            "{what} does not match {name}; {remedy}\n\n{comparison}"
        ))?;
    }
    Ok(exit)
}
