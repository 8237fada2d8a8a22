//! Whether the service answers a query of a prefix of a hierarchical partition key.

use cdb_client::{Bootstrap, ContainerClient, CosmosClient};
use cdb_model::{Container, Document, Query};
use serde::{Deserialize, Serialize};

use crate::Failure;
use crate::checks::{Answer, DATABASE};

#[derive(Document, Serialize, Deserialize)]
#[document(type = "note", id = "note")]
struct Note {
    #[document(partition_key(1))]
    tenant: String,
    #[document(partition_key(2))]
    user: u32,
}

#[derive(Container)]
#[container(partition_key = "/tenant, /user")]
enum Notes {
    Note(Note),
}

/// Asks in a container of its own.
pub(crate) async fn reads_its_tenant(client: &CosmosClient) -> Answer {
    let name = format!("azure-check-{}", uuid::Uuid::new_v4());
    let database = client.database(DATABASE);
    let notes = database.bootstrap(&name, Bootstrap::CreateIfMissing);
    let notes: ContainerClient<Notes> = notes.await?;
    let found = count(&notes).await;
    notes.delete_container().await?;
    let found = found?;
    let text = format!("{found} of 8 documents");
    Ok(if found == 8 { Ok(text) } else { Err(text) })
}

async fn count(notes: &ContainerClient<Notes>) -> Result<usize, Failure> {
    for (tenant, user) in ["acme", "other"]
        .into_iter()
        .flat_map(|tenant| (0..8).map(move |user| (tenant, user)))
    {
        let tenant = tenant.to_owned();
        notes.create(&Note { tenant, user }).await?;
    }
    let acme = Query::<Note>::in_partition_prefix("acme");
    Ok(notes.query(acme).all().await?.len())
}
