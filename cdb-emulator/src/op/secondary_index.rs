//! Keeps global secondary indexes in step with their source. The service does so in the background,
//! after the write; here an index has changed when the write returns, and consumes no throughput.

use serde_json::{Map, Value};

use crate::error::ServiceError;
use crate::rules::{self, IndexDefinition};
use crate::store::version::new_etag;
use crate::store::{Connection, Container, SecondaryIndex, StoredDocument};

/// Changes the indexes of a container with a write to a document; `new` is `None` for a deletion.
/// Precedes the write, because the stored document tells what the indexes contain.
pub(super) fn follow(
    connection: &Connection,
    source: &Container,
    pk: &str,
    id: &str,
    new: Option<&StoredDocument>,
) -> Result<(), ServiceError> {
    if !source.has_secondary_indexes() {
        return Ok(());
    }
    let old = source.read_row(connection, pk, id)?;
    for index in source.secondary_indexes(connection)? {
        if let Some(old) = &old {
            let old = entry(&index, old)?;
            index.container.remove(connection, &old.pk, &old.id)?;
        }
        if let Some(new) = new {
            index.container.write(connection, &entry(&index, new)?)?;
        }
    }
    Ok(())
}

/// Returns the source of a new index.
pub(super) fn source(
    connection: &Connection,
    database: &str,
    index: &IndexDefinition,
) -> Result<Container, ServiceError> {
    let is_source = |container: &Container| match &index.source_rid {
        Some(rid) => container.rid() == *rid,
        None => container.definition["id"].as_str() == index.source_id.as_deref(),
    };
    let found = Container::all(connection, database)?
        .into_iter()
        .find(is_source);
    // The service requires the partition key of the source among the properties, and has this
    // message for all causes (Java SDK, `GlobalSecondaryIndexContainerCrudTest`).
    let source = found.filter(|source| {
        !source.is_secondary_index()
            && source.partition_key_paths().iter().all(|path| {
                let property = path.split('/').nth(1).unwrap_or_default();
                let selected = index.properties.as_ref();
                selected.is_none_or(|selected| selected.iter().any(|name| name == property))
            })
    });
    source.ok_or_else(|| {
        ServiceError::bad_request(
            "Unable to fetch source collection provided in the Materialized View definition.",
        )
    })
}

/// Makes a new container an index, with the documents that its source has.
pub(super) fn fill(
    connection: &Connection,
    source: &Container,
    created: Container,
    definition: IndexDefinition,
) -> Result<Container, ServiceError> {
    let index = SecondaryIndex {
        container: created,
        properties: definition.properties,
    };
    index.link(connection, source)?;
    build(connection, source, &index)?;
    Ok(index.container)
}

/// Derives all documents of the indexes of a container anew.
pub(super) fn rebuild(connection: &Connection, source: &Container) -> Result<(), ServiceError> {
    for index in source.secondary_indexes(connection)? {
        index.clear(connection)?;
        build(connection, source, &index)?;
    }
    Ok(())
}

/// Derives the documents of an empty index.
fn build(
    connection: &Connection,
    source: &Container,
    index: &SecondaryIndex,
) -> Result<(), ServiceError> {
    source.each_row(connection, |document| {
        index.container.write(connection, &entry(index, &document)?)
    })
}

/// Returns the document of an index that follows from a document of its source. Its `_id` is the
/// source's `id`; its own `id` is unique in the index. It expires with the source's document.
fn entry(index: &SecondaryIndex, source: &StoredDocument) -> Result<StoredDocument, ServiceError> {
    let mut all: Map<String, Value> = serde_json::from_str(&source.body)?;
    // The service does not say which ids it gives. Resource ids are unique.
    let id = all["_rid"].as_str().unwrap_or_default().to_owned();
    let mut document = match &index.properties {
        None => all,
        Some(names) => names
            .iter()
            .filter_map(|name| all.remove_entry(name))
            .collect(),
    };
    let (rid, etag) = (index.document_rid(&id), new_etag());
    let link = format!("{}docs/{rid}/", index.container.self_link());
    document.insert("id".to_owned(), id.clone().into());
    document.insert("_id".to_owned(), source.id.clone().into());
    document.insert("_rid".to_owned(), rid.into());
    document.insert("_self".to_owned(), link.into());
    document.insert("_etag".to_owned(), etag.clone().into());
    document.insert("_attachments".to_owned(), "attachments/".into());
    document.insert("_ts".to_owned(), source.ts.into());
    let mut key = rules::partition_key(&document, &index.container.partition_key_paths());
    for level in &mut key {
        // No request can name an array or an object as a partition key.
        level.take_if(|value| value.is_array() || value.is_object());
    }
    Ok(StoredDocument {
        pk: rules::key_text(&key),
        id,
        epk: index.container.epk(&key),
        body: Value::Object(document).to_string(),
        etag,
        lsn: source.lsn,
        ts: source.ts,
        expires: source.expires,
    })
}
