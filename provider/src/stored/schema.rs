//! Checks whether this version may use a container: one read per opening, and one batch for a new
//! container.
//!
//! Stored documents outlive the program that wrote them. A newer schema is refused before anything
//! is written. `duroxide-cdb` has no schema versions; the gate keeps it out.

use cdb_client::{ContainerClient, ErrorKind};
use cdb_coordination::lease::{Fenced, execute_fenced_batch};
use cdb_model::operation::BatchError;
use cdb_model::{Batch, Document as _, ETag, Stored, Timestamp};

use super::documents::Durable;
use super::payload::KEYS;
use crate::error::{Error, Result, committed};
use crate::stored::documents::{SCHEMA_PARTITION, SCHEMA_VERSION, Schema, SchemaKey, gate};

/// Refuses a container with a newer schema, or with payloads that `codec` does not decode. Writes
/// the schema and the gate into a container without them, and notes a new codec. Returns what the
/// container has.
pub(crate) async fn admit(
    container: &ContainerClient<Durable>,
    codec: Option<&str>,
) -> Result<Uses> {
    let stored = match read(container).await? {
        Some(stored) => stored,
        None => match mark(container, codec).await? {
            Some(stored) => stored,
            None => return Ok(Uses::Nothing),
        },
    };
    check(container.name(), Some(&stored.document))?;
    let uses = Uses::of(&stored.document);
    admit_codec(container, stored, codec).await?;
    Ok(uses)
}

/// What a container has that not every version knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Uses {
    Nothing,
    /// Pauses, or limits. Its runtimes read the limits when they open it.
    Limits,
    /// Limits on what runs or starts.
    Permits,
}

impl Uses {
    fn of(schema: &Schema) -> Self {
        if schema.has_permits() {
            Self::Permits
        } else if schema.has_limits() {
            Self::Limits
        } else {
            Self::Nothing
        }
    }

    fn noted_in(self, schema: Schema) -> Schema {
        match self {
            Self::Nothing => schema,
            Self::Limits => schema.with_limits(),
            Self::Permits => schema.with_permits(),
        }
    }
}

async fn admit_codec(
    container: &ContainerClient<Durable>,
    stored: Stored<Schema>,
    codec: Option<&str>,
) -> Result<()> {
    match (&stored.document.payload_codec, codec) {
        (None, Some(codec)) => note_codec(container, stored, codec).await,
        (stored, codec) if stored.as_deref() == codec => Ok(()),
        (Some(stored), codec) => Err(Error::Refused(format!(
            "the payloads of container `{}` are encoded by `{stored}`, and this provider has {}; \
             set `payload_codec` to a codec of that name",
            container.name(),
            described(codec),
        ))),
        (None, None) => Ok(()),
    }
}

/// Notes the first codec of a container. Runtimes without it leave encoded payloads alone until
/// they are restarted, and then refuse the container.
async fn note_codec(
    container: &ContainerClient<Durable>,
    stored: Stored<Schema>,
    codec: &str,
) -> Result<()> {
    let after = stored.document.with_payload_codec(codec);
    replace(container, &after, &stored.etag).await
}

/// Notes what the container will have. Writes the schema and the gate into a container that no
/// runtime has opened; the first runtime adds its codec.
pub(crate) async fn note(container: &ContainerClient<Durable>, uses: Uses) -> Result<()> {
    let stored = if let Some(stored) = check_before_limits(container).await? {
        stored
    } else {
        mark(container, None).await?;
        check_before_limits(container).await?.ok_or_else(|| {
            Error::Refused(format!(
                "this identity may not write the schema of container `{}`",
                container.name()
            ))
        })?
    };
    if Uses::of(&stored.document) >= uses {
        return Ok(());
    }
    let after = uses.noted_in(stored.document);
    let written = replace(container, &after, &stored.etag).await;
    // Another operator may have been faster.
    if written.is_err() {
        let now = check_before_limits(container).await?;
        if now.is_some_and(|stored| Uses::of(&stored.document) >= uses) {
            return Ok(());
        }
    }
    written
}

/// Reads the schema; `None` if no runtime has opened the container. Refuses a newer one.
pub(crate) async fn check_before_limits(
    container: &ContainerClient<Durable>,
) -> Result<Option<Stored<Schema>>> {
    let stored = read(container).await?;
    check(
        container.name(),
        stored.as_ref().map(|stored| &stored.document),
    )?;
    Ok(stored)
}

async fn replace(container: &ContainerClient<Durable>, after: &Schema, etag: &ETag) -> Result<()> {
    match container.run(after.replace().if_match(etag)).await {
        Err(error) if error.is_precondition_failed() => Err(Error::Retryable(
            "another process changed the schema at the same time; open the container again"
                .to_owned(),
        )),
        written => Ok(written.map(drop)?),
    }
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

/// Returns why a tool with this codec must not write payloads; `None` when the container has the
/// same one. Payloads would be stored as plaintext, or the runtimes could not decode them.
pub(crate) fn foreign_codec(
    container: &str,
    schema: Option<&Schema>,
    codec: Option<&str>,
) -> Option<String> {
    let stored = schema.and_then(|schema| schema.payload_codec.as_deref());
    let own = described(codec);
    match stored {
        _ if stored == codec => None,
        Some(stored) => Some(format!(
            "the payloads of container `{container}` are encoded by `{stored}`, and this tool has {own}; \
             set {KEYS} to the keys of the container, or use a tool with a codec of that name"
        )),
        None => Some(format!(
            "the payloads of container `{container}` are not encoded, and this tool has {own}; \
             unset {KEYS}, or first open the container with this codec in a runtime"
        )),
    }
}

fn described(codec: Option<&str>) -> String {
    codec.map_or("no codec".to_owned(), |codec| {
        format!("the codec `{codec}`")
    })
}

/// Writes the schema and the gate. Returns the stored schema when another process wrote it first.
/// Returns `None` after a success, and for an identity that may only read.
async fn mark(
    container: &ContainerClient<Durable>,
    codec: Option<&str>,
) -> Result<Option<Stored<Schema>>> {
    let marks = marks(container.now(), codec)?;
    let created = SchemaKey::new(SCHEMA_PARTITION);
    match execute_fenced_batch(container, &marks, &created).await? {
        Fenced::CommittedBefore => read(container).await,
        Fenced::Refused(error) if error.kind() == ErrorKind::Forbidden => Ok(None),
        fenced => committed(fenced).map(|_| None),
    }
}

/// Reads the latest committed schema, because another process may just have written it.
async fn read(container: &ContainerClient<Durable>) -> Result<Option<Stored<Schema>>> {
    let key = SchemaKey::new(SCHEMA_PARTITION);
    Ok(container.latest_committed().read(&key).await?)
}

/// Returns one atomic batch, so that a container with a schema also has the gate. Creating the
/// schema conflicts with a stored schema. Documents of a gate that outlived their schema are
/// replaced.
fn marks(now: Timestamp, codec: Option<&str>) -> Result<Batch<Durable>, BatchError> {
    let mut batch = Batch::new(SCHEMA_PARTITION);
    let schema = Schema::current(now);
    batch.add(
        (match codec {
            Some(codec) => schema.with_payload_codec(codec),
            None => schema,
        })
        .create(),
    )?;
    let (messages, activities) = gate();
    for message in &messages {
        batch.add(message.upsert())?;
    }
    for activity in &activities {
        batch.add(activity.upsert())?;
    }
    Ok(batch)
}
