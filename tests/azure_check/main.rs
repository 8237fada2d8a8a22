//! `cargo azure-check`, with `COSMOS_ENDPOINT` and `COSMOS_KEY` set: asks an account what no emulator
//! can show. The embedded emulator is asked first, so that the report shows both answers side by
//! side. The exit code is 1 if an answer breaks an assumption that correctness depends on.

use std::process::ExitCode;

use cdb_azure_check::{Answer, PROBES, Probe, Subject, run};
use cdb_client::credential::{Authorization, Credential, SigningContext};
use cdb_client::transport::async_trait;
use cdb_client::{ConnectionString, CosmosClient, MasterKey};
use cdb_emulator::Emulator;

type Failure = Box<dyn std::error::Error>;
type Answers = Vec<(&'static Probe, Answer)>;

const HELP: &str = "cargo azure-check [--list] [--satellite] [NAME…]

NAME         asks these questions only
--list       lists the questions and the files that rely on the answers
--satellite  also sends writes to a region for reads; they are refused, or deleted with the container

COSMOS_ENDPOINT and COSMOS_KEY name the account. With COSMOS_ENTRA_TOKEN, a token for the account, an
identity is asked, too: az account get-access-token --resource https://ACCOUNT.documents.azure.com";

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
    let (options, names): (Vec<String>, Vec<String>) = std::env::args()
        .skip(1)
        .partition(|word| word.starts_with('-'));
    let has = |option: &str| options.iter().any(|given| given == option);
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let known = |name: &&str| PROBES.iter().any(|probe| probe.name == *name);
    let unknown = options
        .iter()
        .any(|given| !["--list", "--satellite"].contains(&&**given));
    if unknown || !names.iter().all(known) {
        println!("{HELP}");
        return Ok(ExitCode::FAILURE);
    }
    if has("--list") {
        list();
        return Ok(ExitCode::SUCCESS);
    }
    let emulator = Emulator::start().await?;
    let client = CosmosClient::builder(emulator.endpoint())
        .credential(MasterKey::new(emulator.key())?)
        .build()?;
    let emulated = run(&Subject::new(client.clone()), &names).await;
    let spent = client.usage().total();
    let (requests, charge) = (spent.requests, spent.charge);
    println!("On the emulator the check sends {requests} requests and costs {charge:.0} RU.\n");
    let Ok(account) = ConnectionString::from_env() else {
        println!("No account: set COSMOS_ENDPOINT and COSMOS_KEY. The emulator answers:\n");
        return Ok(print(&emulated, None));
    };
    let subject = subject(&account, has("--satellite")).await?;
    let answers = run(&subject, &names).await;
    Ok(print(&emulated, Some(&answers)))
}

fn list() {
    for probe in &PROBES {
        let need = if probe.is_required {
            "required"
        } else {
            "measured"
        };
        println!("{} ({need}): {}", probe.name, probe.question);
        println!("    {}", probe.relied_on_by.join(", "));
    }
}

/// The clients of an account that the options ask for.
async fn subject(account: &ConnectionString, with_satellite: bool) -> Result<Subject, Failure> {
    let client = account.client()?.build()?;
    let mut subject = Subject::new(client.clone());
    if with_satellite {
        let regions = client.account().await?;
        let write = &regions.write_regions;
        let mut others = regions.read_regions.iter();
        let other = others.find(|region| write.first() != Some(region));
        let other = other.ok_or("the account has one region only")?;
        let credential = MasterKey::new(account.key())?;
        let satellite = CosmosClient::builder(&other.endpoint).credential(credential);
        subject = subject.with_satellite(satellite.build()?);
    }
    if let Ok(token) = std::env::var("COSMOS_ENTRA_TOKEN") {
        let entra = CosmosClient::builder(account.endpoint()).credential(Token(token));
        subject = subject.with_entra(entra.build()?);
    }
    Ok(subject)
}

/// A token of Entra ID. It outlives the check.
struct Token(String);

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(<redacted>)")
    }
}

#[async_trait]
impl Credential for Token {
    async fn authorize(&self, _context: &SigningContext<'_>) -> cdb_client::Result<Authorization> {
        Authorization::from_entra_token(&self.0, 0)
    }
}

/// Prints the report. Returns the exit code.
fn print(emulated: &Answers, account: Option<&Answers>) -> ExitCode {
    println!("| question | emulator | account |\n|---|---|---|");
    let mut broken = Vec::new();
    for (at, (probe, answer)) in emulated.iter().enumerate() {
        let measured = account.map(|answers| &answers[at].1);
        if measured.unwrap_or(answer).is_no() && probe.is_required {
            broken.push(*probe);
        }
        let measured = measured.map(ToString::to_string).unwrap_or_default();
        println!("| {} | {answer} | {measured} |", probe.question);
    }
    if broken.is_empty() {
        println!("\nEvery assumption that correctness depends on holds.");
        return ExitCode::SUCCESS;
    }
    println!(
        "\nAssumptions that correctness depends on do not hold. Please open an issue with this report. They are relied on by:"
    );
    for probe in broken {
        println!("- {}: {}", probe.name, probe.relied_on_by.join(", "));
    }
    ExitCode::FAILURE
}
