//! Whether this version may work on a container: one read at opening, one batch at the first.
//!
//! Stored documents outlive the program that wrote them. What cannot be read must be refused before anything is touched:
//! a newer form by us, ours by `duroxide-cdb`, which knows nothing of versions and is stopped by the gate.

use cdb_client::{ContainerClient, ErrorKind};
use cdb_model::{Batch, BatchError, Timestamp};

use crate::documents::{Durable, SCHEMA_PARTITION, SCHEMA_VERSION, Schema, SchemaKey, gate};
use crate::error::{Error, Result};

/// Refuses a container of a newer form; marks one that has none yet as ours.
pub(crate) async fn admit(container: &ContainerClient<Durable>) -> Result<()> {
    // All or nothing: where there is a schema, there is the gate.
    let marks = marks(container.now())?;
    let schema = match read(container).await? {
        Some(schema) => schema,
        None => match container.execute(&marks).await.map(drop) {
            Ok(()) => return Ok(()),
            // Who may only read looks at a container that nobody has worked on yet.
            Err(error) if error.kind() == ErrorKind::Forbidden => return Ok(()),
            Err(error) if error.is_conflict() || error.is_ambiguous() => {
                let marked = read(container).await?;
                marked.ok_or(error)?
            }
            Err(error) => return Err(error.into()),
        },
    };
    if schema.version <= SCHEMA_VERSION {
        return Ok(());
    }
    Err(Error::Refused(format!(
        "container `{}` has documents of form {}, written by {}, and this version knows forms up to {SCHEMA_VERSION}; \
        use that version or a newer one",
        container.name(),
        schema.version,
        schema.written_by
    )))
}

async fn read(container: &ContainerClient<Durable>) -> Result<Option<Schema>> {
    let key = SchemaKey::new(SCHEMA_PARTITION);
    let stored = container.read(&key).await?;
    Ok(stored.map(|stored| stored.document))
}

fn marks(now: Timestamp) -> Result<Batch<Durable>, BatchError> {
    let mut batch = Batch::new(SCHEMA_PARTITION);
    batch.create(&Schema::current(now))?;
    let (messages, activities) = gate();
    for message in &messages {
        batch.create(message)?;
    }
    for activity in &activities {
        batch.create(activity)?;
    }
    Ok(batch)
}
