//! Checks whether this version may use a container: one read per opening, and one batch for a new
//! container.
//!
//! Stored documents outlive the program that wrote them. A newer schema is refused before anything
//! is written. `duroxide-cdb` has no schema versions; the gate keeps it out.

use cdb_client::{ContainerClient, ErrorKind};
use cdb_coordination::{Fenced, Proof, execute_proven};
use cdb_model::{Batch, BatchError, Timestamp};

use crate::documents::{Durable, SCHEMA_PARTITION, SCHEMA_VERSION, Schema, SchemaKey, gate};
use crate::error::{Error, Result, committed};

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

/// Writes the schema and the gate. Returns the stored schema when another process wrote it first.
/// Returns `None` after a success, and for an identity that may only read.
async fn mark(container: &ContainerClient<Durable>) -> Result<Option<Schema>> {
    let marks = marks(container.now())?;
    let proof = Proof::Created(SchemaKey::new(SCHEMA_PARTITION));
    match execute_proven(container, &marks, &proof).await? {
        Fenced::Earlier => read(container).await,
        Fenced::Refused(error) if error.kind() == ErrorKind::Forbidden => Ok(None),
        fenced => committed(fenced).map(|_| None),
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
