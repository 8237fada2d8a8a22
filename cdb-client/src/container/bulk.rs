//! Many independent operations in few requests: grouped by physical partition, each with a result of its own.
//!
//! Nothing is atomic here. An operation that was throttled, or whose partition moved, goes out again by itself; one
//! whose outcome is open is repeated only where that does no harm, as everywhere.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use cdb_model::limits::MAX_BATCH_OPERATIONS;
use cdb_model::{BatchOperation, BulkBatch, BulkOperation, Container};
use futures::future::join_all;
use serde::Serialize;
use tokio::time::Instant;

use crate::container::batch::repeat_of;
use crate::container::context::ContainerContext;
use crate::container::handle::ContainerClient;
use crate::container::point::JSON;
use crate::error::{CallDetails, Error, ErrorKind, Result};
use crate::header;
use crate::operation::OperationKind;
use crate::operation_result::OperationResult;
use crate::ranges::{RangeId, RangeMap};
use crate::retry::{Outcome, Tries, Verdict, verdict};
use crate::status::Status;

/// Bytes of one request, well below the service's 2 MB: a large request keeps its partition busy for long.
const MAX_BULK_BYTES: usize = 512 * 1024;

/// An operation in its wire form.
#[derive(Serialize)]
struct Addressed<'a> {
    #[serde(flatten)]
    operation: &'a BatchOperation,
    /// The header's value, as a string inside the JSON.
    #[serde(rename = "partitionKey")]
    partition_key: String,
}

/// Operations of one range that travel together.
struct Chunk {
    range: RangeId,
    /// Their places in the bulk.
    indexes: Vec<usize>,
    /// A JSON array without its closing bracket.
    body: Vec<u8>,
}

/// One operation after one round.
struct Tried {
    index: usize,
    result: Result<OperationResult>,
    again: bool,
    /// What the service asked to wait before.
    asked: Option<Duration>,
}

impl<C: Container> ContainerClient<C> {
    /// Carries out independent operations. Results are in the order of the bulk; each succeeds or fails by itself.
    pub async fn execute_bulk(&self, bulk: &BulkBatch<C>) -> Vec<Result<OperationResult>> {
        let pipeline = &self.context.pipeline;
        let (deadline, mut backoff) = (pipeline.retry_config().deadline, pipeline.backoff());
        let started = Instant::now();
        let mut results: BTreeMap<usize, Result<OperationResult>> = BTreeMap::new();
        let mut pending: Vec<usize> = (0..bulk.len()).collect();
        while !pending.is_empty() {
            let round = self.context.bulk_round(bulk.operations(), &pending).await;
            let asked = round.iter().filter_map(|tried| tried.asked).max();
            let again = round.iter().filter(|tried| tried.again);
            pending = again.map(|tried| tried.index).collect();
            for tried in round {
                let earlier = results.remove(&tried.index);
                results.insert(tried.index, after(earlier.as_ref(), tried.result));
            }
            let delay = backoff.delay(asked);
            if started.elapsed().saturating_add(delay) >= deadline {
                break;
            }
            if !pending.is_empty() {
                tokio::time::sleep(delay).await;
            }
        }
        results.into_values().collect()
    }
}

impl ContainerContext {
    /// Sends these operations once, all requests at the same time.
    async fn bulk_round(&self, operations: &[BulkOperation], pending: &[usize]) -> Vec<Tried> {
        let map = match self.ranges().await {
            Ok(map) => map,
            Err(error) => return all(pending, &error, false),
        };
        let (chunks, mut tried) = group(operations, pending, &map);
        let sent = chunks
            .into_iter()
            .map(|chunk| self.send_chunk(operations, chunk));
        tried.extend(join_all(sent).await.into_iter().flatten());
        if tried
            .iter()
            .any(|tried| tried.again && is_gone(&tried.result))
        {
            // A failure to list them shows again in the next round.
            let _listed = self.ranges_after(&map).await;
        }
        tried
    }

    async fn send_chunk(&self, operations: &[BulkOperation], chunk: Chunk) -> Vec<Tried> {
        let Chunk {
            range,
            indexes,
            mut body,
        } = chunk;
        body.push(b']');
        let of = |&index: &usize| &operations[index].operation;
        let request = self
            .items_request(OperationKind::Bulk, JSON, body.into())
            .header(header::IS_BATCH, "True")
            .header(header::BATCH_ATOMIC, "False")
            .header(header::BATCH_CONTINUE_ON_ERROR, "True")
            .header(header::PREFER, "return=minimal")
            .repeat(repeat_of(indexes.iter().map(of)))
            .in_range(range.as_str());
        let accepted = match request {
            Ok(request) => self.send(&request).await,
            Err(error) => Err(error),
        };
        let results = accepted.and_then(|accepted| {
            let results: Vec<OperationResult> = accepted.json()?;
            if results.len() == indexes.len() {
                Ok((accepted, results))
            } else {
                let message = format!("{} results for {} operations", results.len(), indexes.len());
                Err(accepted.unusable(Error::protocol(message)))
            }
        });
        match results {
            Ok((accepted, results)) => indexes
                .iter()
                .zip(results)
                .map(|(index, result)| judge(*index, of(index), result, &accepted.call))
                .collect(),
            Err(error) => all(&indexes, &error, error.is_partition_split()),
        }
    }
}

/// Operations by range, in requests of the size that the service takes. What cannot be placed fails at once.
fn group(
    operations: &[BulkOperation],
    pending: &[usize],
    map: &Arc<RangeMap>,
) -> (Vec<Chunk>, Vec<Tried>) {
    let mut open: BTreeMap<RangeId, Chunk> = BTreeMap::new();
    let mut full = Vec::new();
    let mut failed = Vec::new();
    for &index in pending {
        match place(&operations[index], map) {
            Ok((range, json)) => {
                let chunk = open
                    .entry(range.clone())
                    .or_insert_with(|| Chunk::new(&range));
                if !chunk.has_room_for(&json) {
                    full.push(std::mem::replace(chunk, Chunk::new(&range)));
                }
                chunk.push(index, &json);
            }
            Err(error) => failed.extend(all(&[index], &error, false)),
        }
    }
    full.extend(open.into_values());
    (full, failed)
}

fn place(operation: &BulkOperation, map: &RangeMap) -> Result<(RangeId, Vec<u8>)> {
    let key = &operation.partition_key;
    let range = map
        .locate(key)
        .ok_or_else(|| Error::configuration(format!("partition key {key} cannot be hashed")))?;
    let json = serde_json::to_vec(&Addressed {
        operation: &operation.operation,
        partition_key: key.to_header(),
    })
    .map_err(Error::encode)?;
    Ok((range.id.clone(), json))
}

impl Chunk {
    fn new(range: &RangeId) -> Self {
        Self {
            range: range.clone(),
            indexes: Vec::new(),
            body: Vec::new(),
        }
    }

    fn has_room_for(&self, json: &[u8]) -> bool {
        self.indexes.is_empty()
            || (self.indexes.len() < MAX_BATCH_OPERATIONS
                && self.body.len() + json.len() < MAX_BULK_BYTES)
    }

    fn push(&mut self, index: usize, json: &[u8]) {
        self.body
            .push(if self.indexes.is_empty() { b'[' } else { b',' });
        self.body.extend_from_slice(json);
        self.indexes.push(index);
    }
}

/// Applies the rules of whole requests to one operation.
fn judge(
    index: usize,
    operation: &BatchOperation,
    result: OperationResult,
    call: &CallDetails,
) -> Tried {
    let (status, asked) = (result.status(), result.retry_after());
    let outcome = Outcome::Answered {
        status,
        retry_after: asked,
    };
    let repeat = repeat_of(std::iter::once(operation));
    let verdict = verdict(repeat, Tries::default(), outcome);
    let again = matches!(verdict, Verdict::RetryAfter(_));
    let result = if verdict == Verdict::Accept {
        Ok(result)
    } else {
        let message = result
            .message()
            .unwrap_or("operation was refused")
            .to_owned();
        let call = CallDetails {
            status: Some(status),
            retry_after: asked,
            ambiguous: call.ambiguous || outcome.is_doubtful(),
            ..call.clone()
        };
        Err(Error::new(ErrorKind::of_status(status), message)
            .with_call(call)
            .with_operation_index(index))
    };
    Tried {
        index,
        result,
        again,
        asked,
    }
}

/// What is known of an operation after another attempt. What an earlier one may have done stays open unless this one
/// succeeded: its refusal may be about that very attempt.
fn after(
    earlier: Option<&Result<OperationResult>>,
    now: Result<OperationResult>,
) -> Result<OperationResult> {
    match earlier {
        Some(Err(earlier)) if earlier.is_ambiguous() => now.map_err(Error::into_ambiguous),
        _ => now,
    }
}

fn is_gone(result: &Result<OperationResult>) -> bool {
    matches!(result, Err(error) if error.status() == Some(Status::RANGE_GONE))
}

/// The same failure for each of these operations.
fn all(indexes: &[usize], error: &Error, again: bool) -> Vec<Tried> {
    indexes
        .iter()
        .map(|&index| Tried {
            index,
            result: Err(error.for_operation(index)),
            again,
            asked: None,
        })
        .collect()
}
