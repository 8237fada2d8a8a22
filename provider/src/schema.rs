//! Checks whether this version may use a container: one read per opening, and one batch for a new
//! container.
//!
//! Stored documents outlive the program that wrote them. A newer schema is refused before anything
//! is written. `duroxide-cdb` has no schema versions; the gate keeps it out.

use std::time::Duration;

use cdb_client::{ContainerClient, ErrorKind};
use cdb_coordination::{Jitter, RetryPolicy};
use cdb_model::{Batch, BatchError, Timestamp};

use crate::documents::{Durable, SCHEMA_PARTITION, SCHEMA_VERSION, Schema, SchemaKey, gate};
use crate::error::{Error, Result};

/// The number of sends of the batch while no answer arrives.
const SENDS: u32 = 5;
/// The first and the longest wait between two sends.
const WAITS: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// Refuses a container with a newer schema. Writes the schema and the gate into a container without
/// them.
pub(crate) async fn admit(container: &ContainerClient<Durable>) -> Result<()> {
    let schema = match read(container).await? {
        Some(schema) => Some(schema),
        None => mark(container).await?,
    };
    check(container.name(), schema.as_ref())
}

/// Refuses a newer schema.
pub(crate) fn check(container: &str, schema: Option<&Schema>) -> Result<()> {
    let Some(newer) = schema.filter(|schema| schema.version > SCHEMA_VERSION) else {
        return Ok(());
    };
    Err(Error::Refused(format!(
        "container `{container}` has schema version {}, written by {}; this version supports up to {SCHEMA_VERSION}; \
         use that version or a newer one",
        newer.version, newer.written_by
    )))
}

/// Writes the schema and the gate. Returns the stored schema when another process, or a send whose
/// answer was lost, wrote it first. Returns `None` after a success, and for an identity that may
/// only read.
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

/// Reads the latest committed schema, because another process may just have written it.
async fn read(container: &ContainerClient<Durable>) -> Result<Option<Schema>> {
    let key = SchemaKey::new(SCHEMA_PARTITION);
    let stored = container.latest_committed().read(&key).await?;
    Ok(stored.map(|stored| stored.document))
}

/// Returns one atomic batch, so that a container with a schema also has the gate. Creating the
/// schema conflicts with a stored schema. Documents of a gate that outlived their schema are
/// replaced.
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
