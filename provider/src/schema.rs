//! Whether this version may work on a container: one read at opening, one batch at the first.
//!
//! Stored documents outlive the program that wrote them. A newer form is refused before anything is written.
//! `duroxide-cdb` knows no versions; the gate keeps it out.

use std::time::Duration;

use cdb_client::{ContainerClient, ErrorKind};
use cdb_coordination::{Jitter, RetryPolicy};
use cdb_model::{Batch, BatchError, Timestamp};

use crate::documents::{Durable, SCHEMA_PARTITION, SCHEMA_VERSION, Schema, SchemaKey, gate};
use crate::error::{Error, Result};

/// How often the batch is sent while no answer arrives.
const SENDS: u32 = 5;
/// The first and the longest wait before the batch is sent again.
const WAITS: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// Refuses a container of a newer form. Writes the schema and the gate into a container that has none.
pub(crate) async fn admit(container: &ContainerClient<Durable>) -> Result<()> {
    let schema = match read(container).await? {
        Some(schema) => Some(schema),
        None => mark(container).await?,
    };
    check(container.name(), schema.as_ref())
}

/// Refuses a newer form.
pub(crate) fn check(container: &str, schema: Option<&Schema>) -> Result<()> {
    let Some(newer) = schema.filter(|schema| schema.version > SCHEMA_VERSION) else {
        return Ok(());
    };
    Err(Error::Refused(format!(
        "container `{container}` has documents of form {}, written by {}, and this version knows forms up to {SCHEMA_VERSION}; \
         use that version or a newer one",
        newer.version, newer.written_by
    )))
}

/// Writes the schema and the gate. Returns the stored schema when another process, or a send whose answer was lost, wrote
/// it first. Returns `None` after a success, and for an identity that may only read.
async fn mark(container: &ContainerClient<Durable>) -> Result<Option<Schema>> {
    let marks = marks(container.now())?;
    let waits = RetryPolicy::default().with_delays(WAITS.0, WAITS.1);
    let jitter = Jitter::random();
    let mut sends = 1;
    loop {
        let Err(error) = container.execute(&marks).await else {
            return Ok(None);
        };
        match error.kind() {
            ErrorKind::Forbidden => return Ok(None),
            _ if error.is_conflict() || error.is_ambiguous() => {}
            _ => return Err(error.into()),
        }
        let schema = read(container).await?;
        if schema.is_some() {
            return Ok(schema);
        }
        if sends == SENDS {
            return Err(error.into());
        }
        tokio::time::sleep(waits.delay(sends, &jitter)).await;
        sends += 1;
    }
}

/// Reads the latest committed schema: another process may have written it a moment ago.
async fn read(container: &ContainerClient<Durable>) -> Result<Option<Schema>> {
    let key = SchemaKey::new(SCHEMA_PARTITION);
    let stored = container.latest_committed().read(&key).await?;
    Ok(stored.map(|stored| stored.document))
}

/// All or nothing: a container with a schema has the gate. Creating the schema conflicts with a stored one; documents of
/// the gate that outlived their schema are replaced.
fn marks(now: Timestamp) -> Result<Batch<Durable>, BatchError> {
    let mut batch = Batch::new(SCHEMA_PARTITION);
    batch.create(&Schema::current(now))?;
    let (messages, activities) = gate();
    for message in &messages {
        batch.upsert(message)?;
    }
    for activity in &activities {
        batch.upsert(activity)?;
    }
    Ok(batch)
}
