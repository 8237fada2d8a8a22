//! `cdb doctor`: checks the account, the container and its runtimes; with `--account`, what the project assumes
//! about the service.

use clap::Args;
use clap::builder::PossibleValuesParser;

use crate::connection::{Connection, Secret};
use crate::doctor::account::{self, PROBES, Subject};
use crate::doctor::examine;
use crate::exit::{Exit, Failure};
use crate::model::Model;
use crate::output::Console;

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    account: AccountArgs,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Args)]
pub(crate) struct AccountArgs {
    /// Ask the account instead what this project assumes about the service. Creates containers in
    /// the database `cdb-account-check` and deletes them, one with 11,000 RU/s
    #[arg(long = "account")]
    is_asked: bool,
    /// Ask this question only; repeat it for several
    #[arg(
        long = "question",
        value_name = "NAME",
        requires = "is_asked",
        hide_possible_values = true
    )]
    #[arg(value_parser = PossibleValuesParser::new(PROBES.iter().map(|probe| probe.name)))]
    questions: Vec<String>,
    /// Also send writes to a region for reads, which are refused, or deleted with the container
    #[arg(long, requires = "is_asked")]
    satellite: bool,
    /// A Microsoft Entra ID token: ask also what its identity may do. Prefer the variable
    #[arg(
        long,
        value_name = "TOKEN",
        env = "COSMOS_ENTRA_TOKEN",
        hide_env_values = true
    )]
    identity_token: Option<Secret>,
}

pub(crate) async fn run(
    args: &DoctorArgs,
    model: &Model,
    console: &mut Console<'_>,
) -> Result<Exit, Failure> {
    if args.account.is_asked {
        return ask(args, console).await;
    }
    let diagnosis = examine(&args.connection, model)
        .await?
        .for_program(console.program);
    console.answer(&diagnosis)?;
    Ok(diagnosis.exit())
}

async fn ask(args: &DoctorArgs, console: &mut Console<'_>) -> Result<Exit, Failure> {
    let subject = subject(args).await?;
    let questions: Vec<&str> = args.account.questions.iter().map(String::as_str).collect();
    let report = account::run(&subject, &questions).await;
    console.answer(&report)?;
    Ok(if report.is_sound() {
        Exit::Ok
    } else {
        Exit::Finding
    })
}

/// The clients of the account that the options ask for.
async fn subject(args: &DoctorArgs) -> Result<Subject, Failure> {
    let client = args.connection.client()?;
    let mut subject = Subject::new(client.clone());
    if args.account.satellite {
        let regions = client.account().await?;
        let write = regions.write_regions.first();
        let mut others = regions.read_regions.iter();
        let other = others.find(|region| write != Some(region));
        let other = other.ok_or_else(|| Failure::usage("the account has one region only"))?;
        subject = subject.with_satellite(args.connection.client_at(&other.endpoint)?);
    }
    if let Some(token) = &args.account.identity_token {
        subject = subject.with_entra(args.connection.client_with(token)?);
    }
    Ok(subject)
}
