//! Commits an outbox batch exactly once, also after lost answers.

use std::collections::BTreeMap;
use std::time::Duration;

use cdb_client::retry::within_deadline;
use cdb_client::{ContainerClient, Error};
use cdb_model::container::MemberOf;
use cdb_model::{Container, Stored};
use tokio::time::Instant;

use super::batch::OutboxBatch;
use super::error::OutboxError;
use super::streams::{Streams, Terms};
use crate::message::{Lifetimes, MessageAddress, MessageDocument};
use crate::retry::{Jitter, RetryPolicy};
use crate::timing::{LOST_COMMIT, least_send};

/// How often a commit is tried while other commits use the same streams, or answers are lost.
const TRIES: u32 = 8;

/// The first try that may have taken place.
struct Unanswered {
    error: Error,
    firsts: BTreeMap<MessageAddress, u64>,
}

/// Commits a batch and returns its messages as they are stored. After a lost answer the stored
/// versions are unknown: it returns no messages, and the reconciler delivers them.
pub(crate) async fn commit<C: Container>(
    container: &ContainerClient<C>,
    batch: &OutboxBatch<C>,
    reserved: Duration,
    lifetimes: Lifetimes,
    jitter: &Jitter,
) -> Result<Vec<Stored<MessageDocument<C>>>, OutboxError>
where
    MessageDocument<C>: MemberOf<C>,
{
    let token = uuid::Uuid::new_v4().simple().to_string();
    let mut reader = container.clone();
    let mut open: Option<Unanswered> = None;
    let mut last = None;
    let (deadline, begun) = (container.deadline(), Instant::now());
    let backoff = RetryPolicy::default().with_delays(LOST_COMMIT.0, LOST_COMMIT.1);
    for tries in 0..TRIES {
        if tries > 0 {
            // Commits that lost to the same one must not collide again.
            tokio::time::sleep(backoff.delay(tries, jitter)).await;
        }
        let streams = match Streams::read(&reader, batch).await {
            Ok(streams) => streams,
            // The lost answer is the more important error: that try may have changed something.
            Err(error) => return Err(open.map_or(error, |open| open.error).into()),
        };
        if let Some(tried) = open.take() {
            match streams.has_committed(&token, &tried.firsts) {
                Some(true) => return Ok(Vec::new()),
                Some(false) => open = Some(tried),
                None => return Err(tried.error.into()),
            }
        }
        let left = deadline.saturating_sub(begun.elapsed());
        if tries > 0 && left < least_send(deadline) {
            break;
        }
        let firsts = streams.next_numbers();
        let terms = Terms {
            token: &token,
            now: container.now(),
            reserved,
            lifetimes,
        };
        let prepared = streams.prepare(batch, &terms)?;
        let execute = within_deadline(left, container.execute(&prepared.batch));
        let error = match execute.await {
            Ok(outcome) => return Ok(prepared.sent(|index| outcome.etag(index).cloned())),
            Err(error) => error,
        };
        let lost_race = error
            .operation_index()
            .is_some_and(|index| prepared.lost_race(index, &error));
        let asked = error.is_ambiguous() && !firsts.is_empty();
        // After a lost answer, any error may mean that the first try took place.
        if !asked && open.is_none() && !lost_race {
            return Err(error.into());
        }
        if asked && open.is_none() {
            open = Some(Unanswered { error, firsts });
        } else if !lost_race {
            last = Some(error);
        }
        // Read the writes of other processes before the next try.
        reader = container.latest_committed();
    }
    Err(match last.or(open.map(|open| open.error)) {
        Some(error) => error.into(),
        None => OutboxError::Contended,
    })
}
