//! Checks on a real account what no emulator can show: docs/operations.md lists the questions.
//!
//! `cargo azure-check`, with `COSMOS_ENDPOINT` and `COSMOS_KEY` set. The same checks run on the
//! embedded emulator first, so that the report shows both answers side by side. Each creates a
//! container and deletes it afterwards. The exit code is 1 if an answer breaks an assumption that
//! correctness depends on.

mod checks;
mod prefix;

use std::process::ExitCode;

use cdb_client::{ConnectionString, CosmosClient, MasterKey};
use cdb_emulator::Emulator;

type Failure = Box<dyn std::error::Error>;

/// The answers of one endpoint.
type Answers = Vec<(checks::Question, Result<String, String>)>;

#[tokio::main]
async fn main() -> ExitCode {
    match report().await {
        Ok(code) => code,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

async fn report() -> Result<ExitCode, Failure> {
    let emulator = Emulator::builder().physical_partitions(4).start().await?;
    let client = CosmosClient::builder(emulator.endpoint())
        .credential(MasterKey::new(emulator.key())?)
        .build()?;
    let emulated = checks::run(&client).await?;
    let spent = client.usage().total();
    let (requests, charge) = (spent.requests, spent.charge);
    println!("On the emulator the check sends {requests} requests and costs {charge:.0} RU.\n");
    let Ok(account) = ConnectionString::from_env() else {
        println!("No account: set COSMOS_ENDPOINT and COSMOS_KEY. The emulator answers:\n");
        return Ok(print(&emulated, None));
    };
    let answers = checks::run(&account.client()?.build()?).await?;
    Ok(print(&emulated, Some(&answers)))
}

/// Prints the report. Returns the exit code.
fn print(emulated: &Answers, account: Option<&Answers>) -> ExitCode {
    println!("| question | needed for | emulator | account |\n|---|---|---|---|");
    let mut is_sound = true;
    for (at, (question, answer)) in emulated.iter().enumerate() {
        let measured = account.map(|answers| &answers[at].1);
        let failed = measured.unwrap_or(answer).is_err();
        is_sound &= !(failed && question.is_required);
        println!(
            "| {} | {} | {} | {} |",
            question.text,
            question.needed_for,
            cell(Some(answer)),
            cell(measured)
        );
    }
    if is_sound {
        println!("\nEvery assumption that correctness depends on holds.");
        ExitCode::SUCCESS
    } else {
        println!(
            "\nAn assumption that correctness depends on does not hold. Please open an issue with this report."
        );
        ExitCode::FAILURE
    }
}

fn cell(answer: Option<&Result<String, String>>) -> String {
    match answer {
        Some(Ok(text)) => format!("yes: {text}"),
        Some(Err(text)) => format!("**no**: {text}"),
        None => "not asked".to_owned(),
    }
}
