//! What the service knows and their emulator does not: a patch in a batch, the condition of a patch,
//! and `incr` of what is missing.
//!
//! A patch becomes a read and a replacement. The host holds the lock of the partition key, so that
//! no other write comes between them.

use std::collections::HashMap;

use http::{Method, StatusCode};
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use serde_json::{Value, json};

use crate::aggregates::Aggregates;
use crate::condition::Conditions;
use crate::exchange::{Answer, Request};
use crate::patch;
use crate::sql::query_body;
use crate::theirs::Theirs;

/// The sub-status of an unmet condition.
const UNMET: u32 = 1110;

/// An ETag that no document has.
const FOREIGN: &str = "\"00000000-0000-0000-0000-000000000000\"";

/// The physical partitions of each container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Partitions {
    /// As a container of up to 10,000 RU/s has it.
    One,
    /// As theirs makes them.
    Four,
}

/// Why a patch is not applied.
struct Refusal {
    status: StatusCode,
    substatus: u32,
    message: String,
}

/// Their emulator, and the judge of conditions.
#[derive(Debug)]
pub(crate) struct Shim {
    theirs: Theirs,
    conditions: Conditions,
    partitions: Partitions,
}

impl Shim {
    pub(crate) fn new(theirs: Theirs, partitions: Partitions) -> Self {
        Self {
            theirs,
            conditions: Conditions::new(),
            partitions,
        }
    }

    pub(crate) async fn answer(&self, request: Request) -> Answer {
        if request.is_query() {
            self.query(request).await
        } else if request.is_true("x-ms-cosmos-is-batch-request") {
            self.batch(request).await
        } else if request.method == Method::PATCH {
            self.patch(request).await
        } else if request.method == Method::POST && request.path.ends_with("/colls") {
            self.create_container(request).await
        } else {
            self.forward(request).await
        }
    }

    async fn create_container(&self, request: Request) -> Answer {
        let path = request.path.clone();
        let answer = self.forward(request).await;
        if answer.status == StatusCode::CREATED && self.partitions == Partitions::One {
            let database = path.trim_start_matches("/dbs/").trim_end_matches("/colls");
            let database = percent_decode_str(database).decode_utf8_lossy();
            let container = answer.json();
            let container = container["id"].as_str().unwrap_or_default();
            self.theirs.merge(&database, container).await;
        }
        answer
    }

    async fn forward(&self, request: Request) -> Answer {
        self.theirs.answer(request).await
    }

    async fn query(&self, mut request: Request) -> Answer {
        let mut query: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let aggregates = query["query"].as_str().and_then(Aggregates::read);
        if let Some(aggregates) = &aggregates {
            query["query"] = aggregates.sql.clone().into();
            request.body = query.to_string().into_bytes();
        }
        request.body = query_body(&request.body);
        let mut answer = self.forward(request).await;
        if let Some(aggregates) = aggregates {
            let mut page = answer.json();
            for row in page["Documents"].as_array_mut().into_iter().flatten() {
                *row = aggregates.row(row);
            }
            answer.body = page.to_string().into_bytes();
        }
        answer
    }

    /// Answers a patch. Theirs applies it, unless it has a condition or an `incr`.
    async fn patch(&self, mut request: Request) -> Answer {
        let patch: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        if !is_unknown(&patch) {
            return self.forward(request).await;
        }
        let found = self.forward(request.read(request.path.clone())).await;
        if found.status != StatusCode::OK {
            return found;
        }
        match self.patched(&patch, found.json()).await {
            Ok(document) => {
                request.method = Method::PUT;
                request.body = document.to_string().into_bytes();
                if request.header("if-match") == Some("*") {
                    request.headers.remove("if-match");
                }
                self.forward(request).await
            }
            Err(refusal) => Answer::refusal(refusal.status, refusal.substatus, &refusal.message),
        }
    }

    /// Applies a patch to a document.
    async fn patched(&self, patch: &Value, mut document: Value) -> Result<Value, Refusal> {
        let invalid = |message| Refusal {
            status: StatusCode::BAD_REQUEST,
            substatus: 0,
            message,
        };
        if let Some(condition) = patch["condition"].as_str() {
            let holds = self.conditions.holds(condition, &document).await;
            if !holds.map_err(invalid)? {
                return Err(Refusal {
                    status: StatusCode::PRECONDITION_FAILED,
                    substatus: UNMET,
                    message: "The condition of the patch is not met.".to_owned(),
                });
            }
        }
        patch::apply(&mut document, &patch["operations"]).map_err(invalid)?;
        Ok(document)
    }

    /// Answers a batch, with its patches replaced by writes of whole documents.
    async fn batch(&self, mut request: Request) -> Answer {
        let Ok(mut operations) = serde_json::from_slice::<Vec<Value>>(&request.body) else {
            return self.forward(request).await;
        };
        if operations.iter().all(|it| it["operationType"] != "Patch") {
            return self.forward(request).await;
        }
        let mut documents = HashMap::new();
        let mut refused = None;
        for (at, operation) in operations.iter_mut().enumerate() {
            if refused.is_some() {
                // Not executed, but theirs must know the operation.
                *operation = json!({ "operationType": "Read", "id": "none" });
            } else if operation["operationType"] == "Patch" {
                let refusal = self
                    .replace_patch(&request, operation, &mut documents)
                    .await;
                refused = refusal.map(|refusal| (at, refusal));
            } else {
                note(operation, &mut documents);
            }
        }
        request.body = Value::Array(operations).to_string().into_bytes();
        let mut answer = self.forward(request).await;
        if let Some((at, refusal)) = refused {
            let mut results = answer.json();
            if let Some(result) = results.get_mut(at).filter(|it| it["statusCode"] == 412) {
                *result = json!({
                    "statusCode": refusal.status.as_u16(), "subStatusCode": refusal.substatus,
                    "requestCharge": 1.0, "message": refusal.message,
                });
                answer.body = results.to_string().into_bytes();
            }
        }
        answer
    }

    /// Replaces a patch by a replacement, or, if it must fail, by a read that fails.
    async fn replace_patch(
        &self,
        batch: &Request,
        operation: &mut Value,
        documents: &mut HashMap<String, Value>,
    ) -> Option<Refusal> {
        let id = operation["id"].as_str().unwrap_or_default().to_owned();
        let document = if let Some(document) = documents.get(&id) {
            document.clone()
        } else {
            let name = utf8_percent_encode(&id, NON_ALPHANUMERIC);
            let read = batch.read(format!("{}/{name}", batch.path));
            self.forward(read).await.json()
        };
        let if_match = operation["ifMatch"].as_str().filter(|etag| *etag != "*");
        let mut read = json!({ "operationType": "Read", "id": id });
        if let Some(etag) = if_match {
            read["ifMatch"] = etag.into();
        }
        // A missing document is 404, another version 412: theirs answers both to the read.
        let is_other = if_match.is_some_and(|etag| document["_etag"] != etag);
        if document["id"] != *id || is_other {
            *operation = read;
            return None;
        }
        match self.patched(&operation["resourceBody"], document).await {
            Ok(document) => {
                documents.insert(id, document.clone());
                read["operationType"] = "Replace".into();
                read["resourceBody"] = document;
                *operation = read;
                None
            }
            Err(refusal) => {
                read["ifMatch"] = FOREIGN.into();
                *operation = read;
                Some(refusal)
            }
        }
    }
}

/// Whether theirs would apply a patch otherwise than the service.
fn is_unknown(patch: &Value) -> bool {
    let operations = patch["operations"].as_array();
    let mut operations = operations.into_iter().flatten();
    patch["condition"].is_string() || operations.any(|operation| operation["op"] == "incr")
}

/// Notes the document that an operation leaves, `Null` for a deletion.
fn note(operation: &Value, documents: &mut HashMap<String, Value>) {
    let body = &operation["resourceBody"];
    let id = operation["id"].as_str().or(body["id"].as_str());
    if let Some(id) = id
        && operation["operationType"] != "Read"
    {
        documents.insert(id.to_owned(), body.clone());
    }
}
