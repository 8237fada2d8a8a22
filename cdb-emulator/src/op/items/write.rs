//! Operations on one document, for point requests, batches and bulks.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::patch;
use crate::account::{Replicas, UniqueKeyAnswer};
use crate::op::charge;
use crate::protocol::ServiceError;
use crate::protocol::rid::Inside;
use crate::rules;
use crate::sql::value;
use crate::store::{Change, Connection, Container, StoredDocument, version};

/// An operation.
#[derive(Clone, Debug)]
pub(in crate::op) enum Operation {
    Create(Map<String, Value>),
    Upsert(Map<String, Value>, Preconditions),
    Replace(String, Map<String, Value>, Preconditions),
    Patch(String, patch::Patch, Preconditions),
    Delete(String, Preconditions),
    Read(String, Preconditions),
}

/// `If-Match` and `If-None-Match`.
#[derive(Clone, Debug, Default)]
pub(in crate::op) struct Preconditions {
    pub(in crate::op) if_match: Option<String>,
    pub(in crate::op) if_none_match: Option<String>,
}

impl Preconditions {
    /// Fails unless the document matches `If-Match`.
    fn check(&self, found: &StoredDocument) -> Result<(), ServiceError> {
        match self.if_match.as_deref() {
            Some(wanted) if wanted != "*" && wanted != found.etag => {
                Err(ServiceError::precondition_failed())
            }
            _ => Ok(()),
        }
    }

    /// Returns whether the document matches `If-None-Match`.
    fn excludes(&self, found: &StoredDocument) -> bool {
        matches!(self.if_none_match.as_deref(), Some(etag) if etag == "*" || etag == found.etag)
    }
}

/// The result of an operation.
#[derive(Clone, Debug)]
pub(in crate::op) struct Outcome {
    pub(in crate::op) status: u16,
    pub(in crate::op) etag: Option<String>,
    /// The document after the operation.
    pub(in crate::op) body: Option<String>,
    pub(in crate::op) charge: f64,
    /// The LSN of the last write of a document that was read.
    pub(in crate::op) read_lsn: Option<i64>,
}

/// Resource id numbers per LSN: more than the operations of a batch.
const ORDINALS: u64 = 128;

/// Maximum number of operations of a deletion by key per LSN, as in a batch: a page of the change
/// feed contains all changes of an LSN.
const OPERATIONS_PER_LSN: u64 = 100;

/// The partition key and the time of an operation.
#[derive(Debug)]
pub(in crate::op) struct OperationContext<'a> {
    pub(in crate::op) connection: &'a Connection,
    pub(in crate::op) container: &'a Container,
    pub(in crate::op) replicas: &'a Replicas,
    pub(in crate::op) unique_key_answer: UniqueKeyAnswer,
    /// One value per level of the partition key.
    pub(in crate::op) partition_key: Vec<Option<Value>>,
    /// The log sequence number; the operations of a batch share it, and those of a deletion by key
    /// have several.
    pub(in crate::op) lsn: i64,
    /// The index of the operation in its batch.
    pub(in crate::op) at: u64,
    pub(in crate::op) now: i64,
}

impl OperationContext<'_> {
    /// Returns the partition key as text.
    pub(in crate::op) fn pk(&self) -> String {
        rules::key_text(&self.partition_key)
    }

    /// Prepares the next operation of a deletion by key.
    pub(in crate::op) fn advance(&mut self) -> Result<(), ServiceError> {
        self.at += 1;
        if self.at == OPERATIONS_PER_LSN {
            self.lsn = version::next_lsn(self.connection)?;
            self.at = 0;
        }
        Ok(())
    }

    fn find(&self, id: &str) -> Result<Option<StoredDocument>, ServiceError> {
        self.container
            .read(self.connection, &self.pk(), id, self.now)
    }

    pub(in crate::op) fn existing(&self, id: &str) -> Result<StoredDocument, ServiceError> {
        self.find(id)?.ok_or_else(ServiceError::not_found)
    }

    /// Executes an operation.
    pub(in crate::op) fn apply(&self, operation: Operation) -> Result<Outcome, ServiceError> {
        match operation {
            Operation::Create(document) => {
                if self.find(self.check(&document)?)?.is_some() {
                    return Err(ServiceError::conflict());
                }
                self.store(document, None)
            }
            Operation::Upsert(document, condition) => self.upsert(document, &condition),
            Operation::Replace(id, document, condition) => self.replace(&id, document, &condition),
            Operation::Patch(id, patch, condition) => self.patch(&id, &patch, &condition),
            Operation::Delete(id, condition) => self.delete(&id, &condition),
            Operation::Read(id, condition) => self.read(&id, &condition),
        }
    }

    /// Upserts a document. An upsert that creates ignores both conditions, and an upsert that
    /// replaces applies both. Other writes ignore `If-None-Match` (remarks of
    /// `RequestOptions.IfMatchEtag` and `IfNoneMatchEtag`, azure-cosmos-dotnet-v3#1698).
    fn upsert(
        &self,
        document: Map<String, Value>,
        condition: &Preconditions,
    ) -> Result<Outcome, ServiceError> {
        let found = self.find(self.check(&document)?)?;
        if let Some(found) = &found {
            condition.check(found)?;
            if condition.excludes(found) {
                return Err(ServiceError::precondition_failed());
            }
        }
        self.store(document, found.as_ref())
    }

    /// Replaces a document. The new document may have another unused id
    /// (azure-cosmos-dotnet-v3#870, #1375).
    fn replace(
        &self,
        id: &str,
        document: Map<String, Value>,
        condition: &Preconditions,
    ) -> Result<Outcome, ServiceError> {
        let new_id = self.check(&document)?.to_owned();
        let found = self.existing(id)?;
        condition.check(&found)?;
        if new_id != id {
            if self.find(&new_id)?.is_some() {
                return Err(ServiceError::conflict());
            }
            self.remove(&found)?;
        }
        self.store(document, Some(&found))
    }

    fn patch(
        &self,
        id: &str,
        patch: &patch::Patch,
        condition: &Preconditions,
    ) -> Result<Outcome, ServiceError> {
        patch.check()?;
        let found = self.existing(id)?;
        condition.check(&found)?;
        let mut document: Map<String, Value> = serde_json::from_str(&found.body)?;
        patch.apply(&mut document, self.now)?;
        if self.check(&document)? != id {
            return Err(ServiceError::bad_request("A patch cannot change the id."));
        }
        self.store(document, Some(&found))
    }

    fn delete(&self, id: &str, condition: &Preconditions) -> Result<Outcome, ServiceError> {
        let found = self.existing(id)?;
        condition.check(&found)?;
        self.remove(&found)?;
        let document = serde_json::from_str(&found.body)?;
        let terms = self.container.policy().indexed_paths().count(&document);
        Ok(Outcome {
            status: 204,
            etag: None,
            body: None,
            charge: charge::delete(terms),
            read_lsn: None,
        })
    }

    /// Deletes a document.
    pub(in crate::op) fn remove(&self, found: &StoredDocument) -> Result<(), ServiceError> {
        self.record(found)?;
        self.container
            .remove(self.connection, &found.pk, &found.id)?;
        self.keep_change("delete", found, Some(found.lsn), None)
    }

    /// Keeps a write for the feed of all versions and deletes.
    fn keep_change(
        &self,
        operation: &'static str,
        document: &StoredDocument,
        previous_lsn: Option<i64>,
        current: Option<&str>,
    ) -> Result<(), ServiceError> {
        let change = Change {
            operation,
            pk: &document.pk,
            epk: &document.epk,
            id: &document.id,
            lsn: self.lsn,
            ts: self.now,
            previous_lsn,
            current,
        };
        self.container.keep(self.connection, &change)
    }

    /// Records a write before it is executed, for lagging replicas.
    fn record(&self, document: &StoredDocument) -> Result<(), ServiceError> {
        self.replicas
            .record(self.connection, self.container, document, self.lsn)
    }

    /// Reads a document. A read ignores `If-Match` (azure-cosmos-dotnet-v3#3976, PR 4249).
    fn read(&self, id: &str, condition: &Preconditions) -> Result<Outcome, ServiceError> {
        let found = self.existing(id)?;
        let unchanged = condition.excludes(&found);
        Ok(Outcome {
            status: if unchanged { 304 } else { 200 },
            charge: charge::read(found.body.len()),
            body: (!unchanged).then_some(found.body),
            etag: Some(found.etag),
            read_lsn: Some(found.lsn),
        })
    }

    /// Returns the resource id of a document. A replaced document keeps its id.
    fn rid(&self, replaced: Option<&StoredDocument>) -> Result<String, ServiceError> {
        #[derive(Deserialize)]
        struct Rid {
            #[serde(rename = "_rid")]
            rid: String,
        }
        if let Some(replaced) = replaced {
            let replaced: Rid = serde_json::from_str(&replaced.body)?;
            return Ok(replaced.rid);
        }
        let ordinal = u64::try_from(self.lsn).unwrap_or_default() * ORDINALS + self.at;
        Ok(self.container.rid_inside(Inside::Document(ordinal)))
    }

    /// Checks a document before the stored one is read: an invalid request is 400, whatever is
    /// stored. Returns the id.
    fn check<'d>(&self, document: &'d Map<String, Value>) -> Result<&'d str, ServiceError> {
        let paths = self.container.partition_key_paths();
        if rules::partition_key(document, &paths) != self.partition_key {
            return Err(ServiceError::new(
                400,
                1001,
                "BadRequest",
                "PartitionKey extracted from document doesn't match the one specified in the header.",
            ));
        }
        rules::ttl(document)?;
        rules::id(document)
    }

    /// Sets the system properties of a document.
    fn stamp(&self, document: &mut Map<String, Value>, rid: String, etag: &str) {
        let link = format!("{}docs/{rid}/", self.container.self_link());
        document.insert("_rid".to_owned(), rid.into());
        document.insert("_self".to_owned(), link.into());
        document.insert("_etag".to_owned(), etag.into());
        document.insert("_attachments".to_owned(), "attachments/".into());
        document.insert("_ts".to_owned(), self.now.into());
    }

    /// Stores a document in context of `replaced`.
    fn store(
        &self,
        mut document: Map<String, Value>,
        replaced: Option<&StoredDocument>,
    ) -> Result<Outcome, ServiceError> {
        document.values_mut().for_each(value::fold_numbers);
        let id = rules::id(&document)?.to_owned();
        let ttl = rules::ttl(&document)?;
        let expires = self.container.default_ttl().and_then(|default| {
            let seconds = ttl.unwrap_or(default);
            (seconds > 0).then_some(self.now + seconds)
        });
        let etag = version::new_etag();
        self.stamp(&mut document, self.rid(replaced)?, &etag);
        let terms = self.container.policy().indexed_paths().count(&document);
        let document = Value::Object(document);
        let body = document.to_string();
        rules::document_size(body.len())?;
        let stored = StoredDocument {
            pk: self.pk(),
            epk: self.container.epk(&self.partition_key),
            id,
            etag: etag.clone(),
            lsn: self.lsn,
            ts: self.now,
            expires,
            body,
        };
        self.container
            .check_unique(self.connection, &stored)
            .map_err(|error| self.unique_key_answer.form(error))?;
        self.record(&stored)?;
        self.container
            .write_parsed(self.connection, &stored, &document)?;
        let operation = if replaced.is_some() {
            "replace"
        } else {
            "create"
        };
        let previous_lsn = replaced.map(|replaced| replaced.lsn);
        self.keep_change(operation, &stored, previous_lsn, Some(&stored.body))?;
        let (status, charge) = match replaced {
            None => (201, charge::insert(stored.body.len(), terms)),
            Some(_) => (200, charge::replace(stored.body.len(), terms)),
        };
        Ok(Outcome {
            status,
            etag: Some(etag),
            body: Some(stored.body),
            charge,
            read_lsn: None,
        })
    }
}
