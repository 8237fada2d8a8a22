//! The schema version of a container's messages, as a gate against older releases.
//!
//! Stored as the answer to a request that no client sends, in a partition of its own: releases from
//! before the schema version read answers, and ignore this one.

use cdb_client::retry::within_deadline;
use cdb_client::{ContainerClient, Error};
use cdb_model::container::MemberOf;
use cdb_model::value::PartitionKeyValue;
use cdb_model::{Container, Document as _, PartitionKey};
use serde::{Deserialize, Serialize};

use super::inner::Inner;
use crate::message::{Answer, Content, MessageDocument, MessageDocumentKey};
use crate::outbox::OutboxError;
use crate::timing::AGREEMENT_PAUSE;

/// The schema version that this release writes, and the newest that it reads. It grows when an older
/// release would misread or damage what this release writes. Optional fields do not change it.
const SCHEMA_VERSION: u32 = 1;

/// The request and the partition of the schema version.
const REQUEST: &str = "cdb:form";
const PARTITION: &str = "cdb:messaging";

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Schema {
    #[serde(rename = "form")]
    version: u32,
    written_by: String,
}

/// Checks the schema version of a container, and stores it in a container without one. All requests
/// together have the deadline of one.
///
/// # Errors
/// [`OutboxError::NewerSchema`] when a newer release has written the container.
pub(crate) async fn agree_on_schema<C: Container>(
    container: &ContainerClient<C>,
) -> Result<(), OutboxError>
where
    MessageDocument<C>: MemberOf<C>,
{
    within_deadline(container.deadline(), check_or_store(container)).await
}

async fn check_or_store<C: Container>(container: &ContainerClient<C>) -> Result<(), OutboxError>
where
    MessageDocument<C>: MemberOf<C>,
{
    let levels = C::PARTITION_KEY.iter();
    let values = levels.map(|_| PartitionKeyValue::String(PARTITION.to_owned()));
    let partition = PartitionKey::from_values(values.collect());
    let key = MessageDocumentKey::answer(REQUEST);
    let latest = container.latest_committed();
    let mut pauses = std::iter::repeat_n(AGREEMENT_PAUSE, 2);
    loop {
        if let Some(stored) = latest.read(key.in_partition(&partition)).await? {
            return check(stored.document.content());
        }
        let schema = Schema {
            version: SCHEMA_VERSION,
            written_by: concat!("cdb-coordination ", env!("CARGO_PKG_VERSION")).to_owned(),
        };
        let content = Answer {
            request: REQUEST.to_owned(),
            result: serde_json::to_string(&schema)?,
        };
        let document = MessageDocument::<C>::answer(partition.clone(), content, None);
        let created = container.run(document.create()).await;
        let is_unclear = |error: &Error| error.is_conflict() || error.is_ambiguous();
        match (created, pauses.next()) {
            (Err(error), Some(pause)) if is_unclear(&error) => tokio::time::sleep(pause).await,
            (created, _) => return Ok(created.map(drop)?),
        }
    }
}

fn check(content: &Content) -> Result<(), OutboxError> {
    // No release stores another kind of content under this id.
    let Content::Answer(answer) = content else {
        return Ok(());
    };
    let found: Schema = serde_json::from_str(&answer.result)?;
    if found.version <= SCHEMA_VERSION {
        return Ok(());
    }
    Err(OutboxError::NewerSchema {
        stored: found.version,
        supported: SCHEMA_VERSION,
        written_by: found.written_by,
    })
}

impl<C: Container> Inner<C>
where
    MessageDocument<C>: MemberOf<C>,
{
    /// Checks the schema version of the container, once per process.
    pub(crate) async fn check_schema(&self) -> Result<(), OutboxError> {
        let agree = || async {
            match agree_on_schema(&self.container).await {
                Ok(()) => Ok(Ok(self.schema_checked.get_or_init(|| ()))),
                // All that wait for the answer of the service share this failure.
                Err(OutboxError::Failed(error)) => Err(error),
                Err(refused) => Ok(Err(refused)),
            }
        };
        let known = || self.schema_checked.get().map(Ok);
        self.agreement.run(known, agree).await?.map(drop)
    }

    /// Waits until the schema version is checked. Returns `false` when this release does not support it, or
    /// messaging has stopped.
    pub(super) async fn supports_schema(&self) -> bool {
        loop {
            let checked = tokio::select! {
                () = self.stop.cancelled() => return false,
                checked = self.check_schema() => checked,
            };
            match checked {
                Ok(()) => return true,
                Err(error @ OutboxError::NewerSchema { .. }) => {
                    tracing::error!(%error, "messaging does not run");
                    return false;
                }
                Err(error) => {
                    tracing::warn!(%error, "the schema version of the container was not read");
                }
            }
            if !self.pause(self.config.poll_interval).await {
                return false;
            }
        }
    }
}
