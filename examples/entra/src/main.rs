//! A runtime that authenticates with Microsoft Entra ID instead of an account key.
//!
//! `COSMOS_ENDPOINT=https://<account>.documents.azure.com cargo run --manifest-path
//! examples/entra/Cargo.toml`
//!
//! Such an identity may read and write documents, but may create neither database nor container: an
//! administrator creates them once, with the policy that `cargo policy` prints, and grants the role
//! *Cosmos DB Built-in Data Contributor*:
//!
//! ```text
//! az cosmosdb sql role assignment create --account-name <account> --resource-group <group> --scope / \
//!     --role-definition-id 00000000-0000-0000-0000-000000000002 --principal-id <object id of the identity>
//! ```
//!
//! Tested as far as possible without an account: built with azure_identity 1, it reports that `az`
//! and `azd` are missing if neither is installed. `tests/suite/security/entra.rs` tests the rest
//! with tokens of the emulator.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use azure_core::credentials::TokenCredential;
use azure_identity::{DeveloperToolsCredential, ManagedIdentityCredential};
use cdb_provider::client::Bootstrap;
use cdb_provider::client::credential::EntraId;
use cdb_provider::{CosmosDBProvider, CosmosDBProviderConfig};
use duroxide::runtime::Runtime;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, Client, OrchestrationContext, OrchestrationRegistry};

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), Box<dyn std::error::Error>> {
    let endpoint = std::env::var("COSMOS_ENDPOINT")
        .map_err(|_| "set COSMOS_ENDPOINT to https://<account>.documents.azure.com")?;
    // In Azure the machine's identity; elsewhere the user of `az login` or `azd auth login`.
    let identity: Arc<dyn TokenCredential> = if std::env::var_os("IDENTITY_ENDPOINT").is_some() {
        ManagedIdentityCredential::new(None)?
    } else {
        DeveloperToolsCredential::new(None)?
    };
    let config = CosmosDBProviderConfig {
        endpoint,
        credential: Some(Arc::new(EntraId::new(identity))),
        bootstrap: Bootstrap::VerifyOnly,
        ..CosmosDBProviderConfig::default()
    };
    let store = CosmosDBProvider::new_with_config(config).await?;
    let store = Arc::new(store);

    let activities = ActivityRegistry::builder()
        .register("Greet", |_: ActivityContext, name: String| async move {
            Ok(format!("Hello, {name}!"))
        });
    let orchestrations = OrchestrationRegistry::builder().register(
        "Hello",
        |ctx: OrchestrationContext, name: String| async move {
            ctx.schedule_activity("Greet", name).await
        },
    );
    let runtime =
        Runtime::start_with_store(store.clone(), activities.build(), orchestrations.build()).await;
    let client = Client::new(store);
    let instance = format!("hello-{}", std::process::id());
    client
        .start_orchestration(&instance, "Hello", "Ada")
        .await?;
    let status = client
        .wait_for_orchestration(&instance, Duration::from_secs(30))
        .await?;
    println!("{status:?}");
    runtime.shutdown(None).await;
    Ok(())
}
