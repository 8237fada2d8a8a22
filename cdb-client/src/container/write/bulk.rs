//! Bulks: many independent operations in few requests, grouped by physical partition, each with its
//! own result.
//!
//! A bulk is not atomic. An operation that was throttled, or whose partition moved, is retried
//! alone. An operation with an unknown outcome is retried only if it may be repeated. A request that
//! is refused as a whole because of one operation is halved until that operation is alone.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cdb_model::limits::{MAX_BATCH_OPERATIONS, MAX_REQUEST_BYTES};
use cdb_model::operation::{BatchOperation, BulkBatch, PreparedOperation};
use cdb_model::{Container, PartitionKey};
use futures::future::join_all;
use serde::Serialize;
use tokio::time::Instant;

use crate::container::context::ContainerContext;
use crate::container::handle::ContainerClient;
use crate::container::write::batch::repeat_of;
use crate::error::{CallDetails, Error, ErrorKind, RequestKind, ResponseStatus, Result};
use crate::partitions::{PhysicalPartitionId, RangeMap};
use crate::protocol::{Accepted, JSON, OperationResult, Outcome, Request, header};
use crate::retry::{Retry, Tries, Verdict, time_left, verdict};

/// The bytes of one request, well below the service's 2 MB: a large request occupies its partition
/// for long.
const MAX_BULK_BYTES: usize = 512 * 1024;

/// An operation in the form of the protocol.
#[derive(Serialize)]
struct Addressed<'a> {
    #[serde(flatten)]
    operation: &'a BatchOperation,
    /// The value of the partition key header, as a JSON string.
    #[serde(rename = "partitionKey")]
    partition_key: String,
}

/// The operations of one range in one request.
struct Chunk {
    range: PhysicalPartitionId,
    /// Their indexes in the bulk.
    indexes: Vec<usize>,
    /// A JSON array without its closing bracket.
    body: Vec<u8>,
}

/// Which physical partitions a bulk waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    ForAll,
    ForAvailable,
}

/// What all requests of a bulk share.
struct Sending<'a> {
    operations: &'a [PreparedOperation],
    wait: Wait,
    /// The longest wait of a request for the governor in this round, in milliseconds.
    waited: AtomicU64,
}

/// The result of one operation in one round.
struct Tried {
    index: usize,
    result: Result<OperationResult>,
    retry: bool,
    /// The partition is being moved or split.
    is_moving: bool,
    /// The delay that the service asked for.
    retry_after: Option<Duration>,
}

impl<C: Container> ContainerClient<C> {
    /// Executes independent operations. Returns one result per operation, in the order of the bulk.
    pub async fn execute_bulk(&self, bulk: &BulkBatch<C>) -> Vec<Result<OperationResult>> {
        self.execute_waiting(bulk, Wait::ForAll).await
    }

    /// Executes independent operations like [`execute_bulk`](Self::execute_bulk), without waiting
    /// for physical partitions that do not answer while others do: their operations fail with
    /// [`Unavailable`](ErrorKind::Unavailable), and are ambiguous if they were sent.
    pub async fn execute_bulk_skipping_unavailable(
        &self,
        bulk: &BulkBatch<C>,
    ) -> Vec<Result<OperationResult>> {
        self.execute_waiting(bulk, Wait::ForAvailable).await
    }

    async fn execute_waiting(
        &self,
        bulk: &BulkBatch<C>,
        wait: Wait,
    ) -> Vec<Result<OperationResult>> {
        let pipeline = &self.context.pipeline;
        let longest = time_left();
        let mut deadline = pipeline.retry_config().deadline.min(longest);
        let mut backoff = pipeline.backoff();
        let mut slow = pipeline.slow_backoff();
        let started = Instant::now();
        let mut results: BTreeMap<usize, Result<OperationResult>> = BTreeMap::new();
        let mut pending: Vec<usize> = (0..bulk.len()).collect();
        let operations = bulk.operations_at(self.now());
        let sending = Sending {
            operations: &operations,
            wait,
            waited: AtomicU64::new(0),
        };
        while !pending.is_empty() {
            let round = self.context.bulk_round(&sending, &pending).await;
            // The wait of background work is not part of the time for its attempts.
            let waited = Duration::from_millis(sending.waited.swap(0, Ordering::Relaxed));
            deadline = deadline.saturating_add(waited).min(longest);
            let retry_after = round.iter().filter_map(|tried| tried.retry_after).max();
            let is_moving = round.iter().any(|tried| tried.is_moving);
            let retried = round.iter().filter(|tried| tried.retry);
            pending = retried.map(|tried| tried.index).collect();
            for tried in round {
                let earlier = results.remove(&tried.index);
                results.insert(tried.index, after(earlier.as_ref(), tried.result));
            }
            let delay = if is_moving { &mut slow } else { &mut backoff }.delay(retry_after);
            if started.elapsed().saturating_add(delay) >= deadline {
                break;
            }
            if !pending.is_empty() {
                tokio::time::sleep(delay).await;
            }
        }
        let results = operations.iter().zip(results.into_values());
        join_all(results.map(|(operation, result)| self.explained(operation, result))).await
    }

    /// Names the document of an operation that failed, and what it conflicts with.
    async fn explained(
        &self,
        operation: &PreparedOperation,
        result: Result<OperationResult>,
    ) -> Result<OperationResult> {
        let PreparedOperation { id, partition, .. } = operation;
        let is_create = matches!(operation.operation, BatchOperation::Create { .. });
        match result {
            Ok(result) => Ok(result),
            Err(error) => {
                let error = error.with_operation_id(|_| Some(id.as_str()));
                Err(self.with_conflict(error, partition, id, is_create).await)
            }
        }
    }
}

impl ContainerContext {
    /// Sends these operations once, with all requests concurrently.
    async fn bulk_round(&self, sending: &Sending<'_>, pending: &[usize]) -> Vec<Tried> {
        let map = match self.physical_partitions().await {
            Ok(map) => map,
            Err(error) => return all(pending, &error, false),
        };
        let (chunks, mut tried) = group(sending.operations, pending, &map);
        let sent = chunks
            .into_iter()
            .map(|chunk| self.try_chunk(sending, chunk));
        tried.extend(join_all(sent).await.into_iter().flatten());
        if tried.iter().any(|tried| is_throttled(&tried.result)) {
            self.governor.throttled();
        }
        if tried
            .iter()
            .any(|tried| tried.retry && is_gone(&tried.result))
        {
            // If listing fails, the next round reports it.
            let _listed = self.ranges_after(&map).await;
        }
        tried
    }

    async fn try_chunk(&self, sending: &Sending<'_>, chunk: Chunk) -> Vec<Tried> {
        let Chunk {
            range,
            indexes,
            mut body,
        } = chunk;
        body.push(b']');
        let of = |&index: &usize| &sending.operations[index].operation;
        let request = self
            .items_request(RequestKind::Bulk, JSON, body.into())
            .header(header::IS_BATCH, "True")
            .header(header::BATCH_ATOMIC, "False")
            .header(header::BATCH_CONTINUE_ON_ERROR, "True")
            .header(header::PREFER, "return=minimal")
            .repeat(repeat_of(indexes.iter().map(of)))
            .in_range(range.as_str());
        let accepted = match request {
            Ok(request) => {
                let key = &sending.operations[indexes[0]].partition;
                self.answer_in_time(key, &request, sending).await
            }
            Err(error) => Err(error),
        };
        let results = accepted.and_then(|accepted| {
            let results = accepted.results(indexes.len())?;
            Ok((accepted, results))
        });
        match results {
            Ok((accepted, results)) => indexes
                .iter()
                .zip(results)
                .map(|(index, result)| judge(*index, of(index), result, &accepted.call))
                .collect(),
            Err(error) if is_refused_for_one(&error) && indexes.len() > 1 => {
                Box::pin(self.try_halves(sending, &range, &indexes)).await
            }
            Err(error) => all(&indexes, &error, error.is_partition_split()),
        }
    }

    /// Sends the operations of a refused request in two. Nothing of it was executed.
    async fn try_halves(
        &self,
        sending: &Sending<'_>,
        range: &PhysicalPartitionId,
        indexes: &[usize],
    ) -> Vec<Tried> {
        let mut tried = Vec::with_capacity(indexes.len());
        for half in indexes.chunks(indexes.len().div_ceil(2)) {
            let mut chunk = Chunk::new(range);
            for &index in half {
                match addressed(&sending.operations[index]) {
                    Ok(json) => chunk.push(index, &json),
                    Err(error) => tried.extend(all(&[index], &error, false)),
                }
            }
            if !chunk.indexes.is_empty() {
                tried.extend(self.try_chunk(sending, chunk).await);
            }
        }
        tried
    }

    async fn answer_in_time(
        &self,
        key: &PartitionKey,
        request: &Request,
        sending: &Sending<'_>,
    ) -> Result<Accepted> {
        // Before the deadline, which is for the answer.
        let begun = Instant::now();
        let admission = self.admit(request.kind).await;
        let waited = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        sending.waited.fetch_max(waited, Ordering::Relaxed);
        let sent = self.send_admitted(request, admission);
        if sending.wait == Wait::ForAll {
            return sent.await;
        }
        let range = self.known_partition_of(key);
        if let Some(backoff) = range.and_then(|range| self.health.backoff_of_work(&range)) {
            let message =
                format!("the physical partition of {key} does not answer; wait {backoff:?}");
            return Err(Error::new(ErrorKind::Unavailable, message));
        }
        let started = Instant::now();
        let answered = self.in_time(key, sent).await;
        answered.map_err(|error| match error.call() {
            Some(_) => error,
            // The deadline has passed. The request may still be executed.
            None => error.with_call(CallDetails {
                operation: RequestKind::Bulk,
                resource: self.resource.link.clone(),
                status: None,
                activity_id: String::new(),
                attempts: 1,
                elapsed: started.elapsed(),
                retry_after: None,
                charge: 0.0,
                ambiguous: true,
            }),
        })
    }
}

/// Groups operations by range, in requests within the service's limits. An operation whose range is
/// unknown fails at once.
fn group(
    operations: &[PreparedOperation],
    pending: &[usize],
    map: &Arc<RangeMap>,
) -> (Vec<Chunk>, Vec<Tried>) {
    let mut open: BTreeMap<PhysicalPartitionId, Chunk> = BTreeMap::new();
    let mut full = Vec::new();
    let mut failed = Vec::new();
    for &index in pending {
        match locate(&operations[index], map) {
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

fn locate(operation: &PreparedOperation, map: &RangeMap) -> Result<(PhysicalPartitionId, Vec<u8>)> {
    let key = &operation.partition;
    // The service would refuse it together with all operations of its request
    // (azure-sdk-for-java#49409).
    key.check_length().map_err(Error::key_too_long)?;
    let range = map
        .locate(key)
        .ok_or_else(|| Error::configuration(format!("partition key {key} cannot be hashed")))?;
    Ok((range.id.clone(), addressed(operation)?))
}

fn addressed(operation: &PreparedOperation) -> Result<Vec<u8>> {
    let json = serde_json::to_vec(&Addressed {
        operation: &operation.operation,
        partition_key: operation.partition.to_header(),
    })
    .map_err(Error::encode)?;
    // With the brackets of the array.
    let bytes = json.len() + 2;
    if bytes > MAX_REQUEST_BYTES {
        let id = &operation.id;
        return Err(Error::new(
            ErrorKind::TooLarge,
            format!(
                "the operation on `{id}` has {bytes} bytes in a bulk, the service allows {MAX_REQUEST_BYTES} per request; send it with `run`"
            ),
        ));
    }
    Ok(json)
}

impl Chunk {
    fn new(range: &PhysicalPartitionId) -> Self {
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

/// Applies the retry rules of requests to one operation.
fn judge(
    index: usize,
    operation: &BatchOperation,
    result: OperationResult,
    call: &CallDetails,
) -> Tried {
    let (status, retry_after) = (result.status(), result.retry_after());
    let outcome = Outcome::Answered {
        status,
        retry_after,
    };
    let repeat = repeat_of(std::iter::once(operation));
    let verdict = verdict(repeat, Tries::default(), outcome);
    // The other operations leave room in the next answer (dotnet, `BulkExecutionRetryPolicy`). No
    // source says whether this one was executed.
    let is_too_long = status == ResponseStatus::BULK_ANSWER_TOO_LONG;
    let retry = is_too_long || matches!(verdict, Verdict::Retry(Retry::After(_) | Retry::Slowly));
    let result = if verdict == Verdict::Accept {
        Ok(result)
    } else {
        let message = result
            .message()
            .unwrap_or("operation was refused")
            .to_owned();
        let call = CallDetails {
            status: Some(status),
            retry_after,
            ambiguous: call.ambiguous || outcome.is_doubtful() || is_too_long,
            ..call.clone()
        };
        Err(Error::new(ErrorKind::of_status(status), message)
            .with_call(call)
            .with_operation(index))
    };
    Tried {
        index,
        result,
        retry,
        is_moving: verdict == Verdict::Retry(Retry::Slowly),
        retry_after,
    }
}

/// Returns the result of an operation after another attempt. A refusal after an ambiguous attempt
/// stays ambiguous, because that attempt may have caused the refusal.
fn after(
    earlier: Option<&Result<OperationResult>>,
    now: Result<OperationResult>,
) -> Result<OperationResult> {
    match earlier {
        Some(Err(earlier)) if earlier.is_ambiguous() => now.map_err(Error::into_ambiguous),
        _ => now,
    }
}

fn is_throttled(result: &Result<OperationResult>) -> bool {
    matches!(result, Err(error) if error.status().is_some_and(|status| status.code == 429))
}

/// Whether one operation may be the reason why a request was refused as a whole, without effect.
fn is_refused_for_one(error: &Error) -> bool {
    error.kind() == ErrorKind::BadRequest && !error.is_ambiguous()
}

fn is_gone(result: &Result<OperationResult>) -> bool {
    matches!(result, Err(error) if error.is_partition_split())
}

/// Returns the same failure for each of these operations.
fn all(indexes: &[usize], error: &Error, retry: bool) -> Vec<Tried> {
    indexes
        .iter()
        .map(|&index| Tried {
            index,
            result: Err(error.for_operation(index)),
            retry,
            is_moving: false,
            retry_after: None,
        })
        .collect()
}
