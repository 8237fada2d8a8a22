//! Operations on one document, as they take place in point requests, batches and bulks alike.

use rusqlite::Connection;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::patch;
use crate::error::ServiceError;
use crate::store::rid::Inside;
use crate::store::{Container, StoredDocument, catalog};
use crate::{charge, epk, index_terms, rules};

/// An operation.
#[derive(Clone, Debug)]
pub(super) enum Operation {
    Create(Map<String, Value>),
    Upsert(Map<String, Value>, Condition),
    Replace(String, Map<String, Value>, Condition),
    Patch(String, patch::Patch, Condition),
    Delete(String, Condition),
    Read(String, Condition),
}

/// `If-Match` and `If-None-Match`.
#[derive(Clone, Debug, Default)]
pub(super) struct Condition {
    pub(super) if_match: Option<String>,
    pub(super) if_none_match: Option<String>,
}

impl Condition {
    fn check(&self, found: Option<&StoredDocument>) -> Result<(), ServiceError> {
        let etag = found.map(|document| &*document.etag);
        let matches = match self.if_match.as_deref() {
            None => true,
            Some("*") => etag.is_some(),
            Some(wanted) => etag == Some(wanted),
        };
        if matches {
            Ok(())
        } else {
            Err(ServiceError::precondition_failed())
        }
    }
}

/// What came of an operation.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    pub(super) status: u16,
    pub(super) etag: Option<String>,
    /// The document as it is now.
    pub(super) body: Option<String>,
    pub(super) charge: f64,
}

/// Numbers for new documents per write of the log: more than a batch can have.
const ORDINALS: u64 = 128;

/// Where an operation takes place.
#[derive(Debug)]
pub(super) struct Place<'a> {
    pub(super) connection: &'a Connection,
    pub(super) container: &'a Container,
    /// One value per level of the partition key.
    pub(super) partition_key: Vec<Option<Value>>,
    /// The number of this write in the log; all of a batch have the same.
    pub(super) lsn: i64,
    /// Which one of its batch it is.
    pub(super) at: u64,
    pub(super) now: i64,
}

impl Place<'_> {
    /// The partition key as text; two values are one partition when their texts are equal.
    pub(super) fn pk(&self) -> String {
        let values = self.partition_key.iter().map(|value| match value {
            Some(value) => value.clone(),
            None => Value::Object(Map::new()),
        });
        Value::Array(values.collect()).to_string()
    }

    fn find(&self, id: &str) -> Result<Option<StoredDocument>, ServiceError> {
        self.container
            .read(self.connection, &self.pk(), id, self.now)
    }

    fn existing(&self, id: &str) -> Result<StoredDocument, ServiceError> {
        self.find(id)?.ok_or_else(ServiceError::not_found)
    }

    /// Carries out an operation.
    pub(super) fn apply(&self, operation: Operation) -> Result<Outcome, ServiceError> {
        match operation {
            Operation::Create(document) => {
                if self.find(rules::id(&document)?)?.is_some() {
                    return Err(ServiceError::conflict());
                }
                self.store(document, None)
            }
            Operation::Upsert(document, condition) => {
                let found = self.find(rules::id(&document)?)?;
                // Without a document it is a creation, whatever version was named (azure-cosmos-dotnet-v3#1698).
                if found.is_some() {
                    condition.check(found.as_ref())?;
                }
                self.store(document, found.as_ref())
            }
            Operation::Replace(id, document, condition) => {
                let found = self.existing(&id)?;
                condition.check(Some(&found))?;
                let new_id = rules::id(&document)?.to_owned();
                if new_id != id {
                    return Err(ServiceError::bad_request(
                        "The id in the body is not the id of the document.",
                    ));
                }
                self.store(document, Some(&found))
            }
            Operation::Patch(id, patch, condition) => {
                let found = self.existing(&id)?;
                condition.check(Some(&found))?;
                let mut document: Map<String, Value> = serde_json::from_str(&found.body)?;
                patch.apply(&mut document)?;
                if document.get("id").and_then(Value::as_str) != Some(&*id) {
                    return Err(ServiceError::bad_request("A patch cannot change the id."));
                }
                self.store(document, Some(&found))
            }
            Operation::Delete(id, condition) => {
                let found = self.existing(&id)?;
                condition.check(Some(&found))?;
                self.container.remove(self.connection, &found.pk, &id)?;
                let document = serde_json::from_str(&found.body)?;
                let terms = index_terms::count(self.container.policy(), &document);
                Ok(Outcome {
                    status: 204,
                    etag: None,
                    body: None,
                    charge: charge::delete(terms),
                })
            }
            Operation::Read(id, condition) => {
                let found = self.existing(&id)?;
                condition.check(Some(&found))?;
                let unchanged = condition.if_none_match.as_deref() == Some(&*found.etag);
                Ok(Outcome {
                    status: if unchanged { 304 } else { 200 },
                    charge: charge::read(found.body.len()),
                    body: (!unchanged).then_some(found.body),
                    etag: Some(found.etag),
                })
            }
        }
    }

    /// The resource id of a document: for as long as it lives, however often it is replaced.
    fn rid(&self, former: Option<&StoredDocument>) -> Result<String, ServiceError> {
        #[derive(Deserialize)]
        struct Rid {
            #[serde(rename = "_rid")]
            rid: String,
        }
        if let Some(former) = former {
            let former: Rid = serde_json::from_str(&former.body)?;
            return Ok(former.rid);
        }
        let ordinal = u64::try_from(self.lsn).unwrap_or_default() * ORDINALS + self.at;
        Ok(self.container.rid_inside(Inside::Document(ordinal)))
    }

    /// Stores a document, in the place of a former one if there is one.
    fn store(
        &self,
        mut document: Map<String, Value>,
        former: Option<&StoredDocument>,
    ) -> Result<Outcome, ServiceError> {
        let paths = self.container.partition_key_paths();
        if rules::partition_key(&document, &paths) != self.partition_key {
            return Err(ServiceError::new(
                400,
                1001,
                "BadRequest",
                "PartitionKey extracted from document doesn't match the one specified in the header.",
            ));
        }
        let id = rules::id(&document)?.to_owned();
        let ttl = rules::ttl(&document)?;
        let expires = self.container.default_ttl().and_then(|default| {
            let seconds = ttl.unwrap_or(default);
            (seconds > 0).then_some(self.now + seconds)
        });
        let etag = catalog::new_etag();
        let rid = self.rid(former)?;
        let link = format!("{}docs/{rid}/", self.container.self_link());
        document.insert("_rid".to_owned(), rid.into());
        document.insert("_self".to_owned(), link.into());
        document.insert("_etag".to_owned(), etag.clone().into());
        document.insert("_attachments".to_owned(), "attachments/".into());
        document.insert("_ts".to_owned(), self.now.into());
        let terms = index_terms::count(self.container.policy(), &document);
        let body = Value::Object(document).to_string();
        rules::size(body.len())?;
        let stored = StoredDocument {
            pk: self.pk(),
            epk: epk::effective_partition_key(&self.partition_key),
            id,
            etag: etag.clone(),
            lsn: self.lsn,
            ts: self.now,
            expires,
            body,
        };
        self.container.check_unique(self.connection, &stored)?;
        self.container.write(self.connection, &stored)?;
        let (status, charge) = match former {
            None => (201, charge::insert(stored.body.len(), terms)),
            Some(_) => (200, charge::replace(stored.body.len(), terms)),
        };
        Ok(Outcome {
            status,
            etag: Some(etag),
            body: Some(stored.body),
            charge,
        })
    }
}
