//! Requests to another region, and of an Entra ID identity: asked on request.

use cdb_client::Bootstrap;
use cdb_client::ContainerClient;
use cdb_client::transport::http::Method;
use cdb_client::write::RawTarget;
use cdb_model::Document as _;
use serde_json::json;

use crate::doctor::account::answer::{Answer, Failure, Outcome};
use crate::doctor::account::check::Check;
use crate::doctor::account::raw::Raw;
use crate::doctor::account::samples::{Before, Checked, Sample};

fn on_request(what: &str) -> Answer {
    Answer::NotAsked(format!("on request ({what})"))
}

fn satellite(check: &Check) -> Option<ContainerClient<Checked>> {
    let client = check.subject.satellite.as_ref()?;
    Some(check.through(client))
}

/// A create of an item. Source of the header: azure_data_cosmos_driver `cosmos_headers.rs`.
fn create(id: &str) -> Raw<'static> {
    Raw::new(Method::POST, RawTarget::Items)
        .in_partition("region")
        .json(json!({ "id": id, "instanceId": "region" }))
}

/// Source: azure-cosmos-dotnet-v3 `ClientRetryPolicy.cs`: 403/3 is `WriteForbidden`.
pub(super) async fn satellite_write(check: &Check) -> Outcome {
    let Some(satellite) = satellite(check) else {
        return Ok(on_request("--satellite"));
    };
    let account = check.client().account().await?;
    let plain = create("plain").send(&satellite).await?;
    let tentative = create("tentative").with("x-ms-cosmos-allow-tentative-writes", "True");
    let tentative = tentative.send(&satellite).await?;
    let is_refused = |status, sub| (status, sub) == (403, 3);
    let expected = if account.has_several_write_regions {
        tentative.status == 201
    } else {
        is_refused(tentative.status, tentative.substatus)
    };
    let holds = is_refused(plain.status, plain.substatus) && expected;
    Ok(Answer::when(
        holds,
        format!("{}; tentative: {}", plain.outline(), tentative.outline()),
    ))
}

/// No source tells whether the refusal is that of the request or that of each operation. The client
/// handles both.
pub(super) async fn satellite_bulk(check: &Check) -> Outcome {
    let Some(satellite) = satellite(check) else {
        return Ok(on_request("--satellite"));
    };
    let key = cdb_model::PartitionKey::from("region");
    let range = check.container()?.physical_partition_of(&key).await?;
    let range = range.ok_or("the key has no physical partition")?;
    let operation = json!([{
        "operationType": "Create",
        "partitionKey": key.to_header(),
        "resourceBody": { "id": "bulk", "instanceId": "region" },
    }]);
    let bulk = Raw::new(Method::POST, RawTarget::Items)
        .with("x-ms-cosmos-is-batch-request", "True")
        .with("x-ms-cosmos-batch-atomic", "False")
        .with("x-ms-cosmos-batch-continue-on-error", "True")
        .with("x-ms-documentdb-partitionkeyrangeid", &range.to_string())
        .json(operation);
    let answer = bulk.send(&satellite).await?;
    let result = &answer.body[0];
    let of_request = (answer.status, answer.substatus) == (403, 3);
    let of_operation = result["statusCode"] == 403 && result["subStatusCode"] == 3;
    Ok(Answer::when(
        of_request || of_operation,
        format!("request: {}, its operation: {result}", answer.outline()),
    ))
}

/// Source of the header: azure-cosmos-dotnet-v3 `ClientRetryPolicy.cs`. No source tells its effect
/// together with `LatestCommitted`.
pub(super) async fn hub(check: &Check) -> Outcome {
    let sample = Sample::new("region", "hub");
    check.container()?.run(sample.create()).await?;
    let read = Raw::read("region", "region:sample:hub")
        .with("x-ms-cosmos-hub-region-processing-only", "True")
        .with("x-ms-cosmos-read-consistency-strategy", "LatestCommitted");
    let read = check.send(&read).await?;
    Ok(Answer::when(read.status == 200, read.outline()))
}

/// Source: how-to-grant-data-plane-access.md: data-plane roles do not manage containers.
pub(super) async fn entra(check: &Check) -> Outcome {
    let Some(client) = &check.subject.entra else {
        return Ok(on_request("COSMOS_ENTRA_TOKEN"));
    };
    let container = check.through(client);
    let sample = Sample::new("region", "entra");
    container.run(sample.create()).await?;
    let read = container.read(&sample.key()).await?;
    let is_read = read.is_some_and(|row| row.document == sample);
    let created = create_container(check, client).await?;
    Ok(Answer::when(
        is_read && created.starts_with("refused"),
        format!("read: {is_read}; a container: {created}"),
    ))
}

async fn create_container(
    check: &Check,
    client: &cdb_client::CosmosClient,
) -> Result<String, Failure> {
    let name = format!("{}-entra", check.name);
    let database = client.database(check.database.name());
    let created = database.bootstrap::<Before>(&name, Bootstrap::CreateIfMissing);
    Ok(match created.await {
        Ok(container) => {
            check.delete(&container).await;
            "created".to_owned()
        }
        Err(error) => match error.status() {
            Some(status) if status.code == 403 => format!("refused with {status}"),
            _ => error.to_string(),
        },
    })
}
