//! The number of the stored form, as a gate against older releases.
//!
//! Stored as the answer to a request that no client sends, in a partition of its own: releases from
//! before the number read answers, and ignore this one.

use cdb_client::ContainerClient;
use cdb_model::{Container, Document as _, MemberOf, PartitionKey, PartitionKeyValue};
use serde::{Deserialize, Serialize};

use super::inner::Inner;
use crate::message::{Answer, Content, MessageDocument, MessageDocumentKey};
use crate::outbox::OutboxError;

/// The number of the stored form. It grows when an older release would misread or damage what this
/// release writes. Optional fields do not change it.
const FORM: u32 = 1;

/// The request and the partition of the number.
const REQUEST: &str = "cdb:form";
const PARTITION: &str = "cdb:messaging";

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Form {
    form: u32,
    written_by: String,
}

/// Checks the form of a container, and stores it in a container without one.
///
/// # Errors
/// [`OutboxError::NewerForm`] when a newer release has written the container.
pub(crate) async fn agree_on_form<C: Container>(
    container: &ContainerClient<C>,
) -> Result<(), OutboxError>
where
    MessageDocument<C>: MemberOf<C>,
{
    let levels = C::PARTITION_KEY.iter();
    let values = levels.map(|_| PartitionKeyValue::String(PARTITION.to_owned()));
    let partition = PartitionKey::from_values(values.collect());
    let key = MessageDocumentKey::answer(REQUEST);
    let latest = container.latest_committed();
    loop {
        if let Some(stored) = latest.read(key.in_partition(&partition)).await? {
            return check(stored.document.content());
        }
        let form = Form {
            form: FORM,
            written_by: concat!("cdb-coordination ", env!("CARGO_PKG_VERSION")).to_owned(),
        };
        let content = Answer {
            request: REQUEST.to_owned(),
            result: serde_json::to_string(&form)?,
        };
        let document = MessageDocument::<C>::answer(partition.clone(), content, None);
        match container.run(document.create()).await {
            Err(error) if error.is_conflict() || error.is_ambiguous() => {}
            created => return Ok(created.map(drop)?),
        }
    }
}

fn check(content: &Content) -> Result<(), OutboxError> {
    // No release stores another kind of content under this id.
    let Content::Answer(answer) = content else {
        return Ok(());
    };
    let found: Form = serde_json::from_str(&answer.result)?;
    if found.form <= FORM {
        return Ok(());
    }
    Err(OutboxError::NewerForm {
        stored: found.form,
        supported: FORM,
        written_by: found.written_by,
    })
}

impl<C: Container> Inner<C>
where
    MessageDocument<C>: MemberOf<C>,
{
    /// Checks the form of the container, once per process.
    pub(super) async fn check_form(&self) -> Result<(), OutboxError> {
        let checked = self.form.get_or_try_init(|| agree_on_form(&self.container));
        checked.await.map(drop)
    }

    /// Waits until the form is checked. Returns `false` when this release does not support it, or
    /// messaging has stopped.
    pub(super) async fn supports_form(&self) -> bool {
        loop {
            match self.check_form().await {
                Ok(()) => return true,
                Err(error @ OutboxError::NewerForm { .. }) => {
                    tracing::error!(%error, "messaging does not run");
                    return false;
                }
                Err(error) => tracing::warn!(%error, "the form of the container was not read"),
            }
            if !self.pause(self.config.poll_interval).await {
                return false;
            }
        }
    }
}
