//! Loads the documents that a turn needs, in one query of the instance's partition.

use std::collections::BTreeSet;

use cdb_client::{ContainerClient, ErrorKind};
use cdb_model::query::Filter;
use cdb_model::stored::Unreadable;
use cdb_model::{Query, Stored, Timestamp};
use tokio::time::Instant;

use super::loaded::{Loaded, LoadedHistory};
use crate::error::{Error, Result};
use crate::queue::instances::{
    Arrived, Left, MAX_MESSAGES, Message, Parent, Room, sort, sort_cancellations_first,
    split_off_others,
};
use crate::stored::Store;
use crate::stored::documents::{
    Durable, FIRST_DUE, HistorySegment, Instance, InstanceKey, KeyValue, KeyValueDelta,
    KeyValuePack, OrchestratorItem, Partial, Status,
};
use crate::stored::history::{self, Segments};
use crate::stored::spill;
use crate::timing::{ARRIVAL_OVERLAP, MESSAGE_RESERVED, STALE_HISTORY_PAUSE, STALE_HISTORY_READS};

/// The number of reads of a partition in several pages while its instance changes. Afterwards the
/// attempt fails and the instance has a backoff, because its dispatcher has other instances.
const CHANGING_READS: u32 = 3;

/// The most messages in a load of several pages: those of one turn, and some that are reserved for
/// another runtime.
#[expect(clippy::cast_possible_truncation, reason = "a constant below 2^32")]
const MAX_LOADED_MESSAGES: u32 = 2 * MAX_MESSAGES as u32;

/// The most messages that a load leaves to later turns. Later loads read the others.
const MAX_NOTED: usize = 8_192;

/// Reads the partition of a candidate.
///
/// A single page comes from one replica at one moment. With several pages, the later lock on the
/// instance's ETag would prove nothing about the other documents; so such a load is repeated until
/// the instance is the same before and after. An instance that another runtime has locked is
/// returned as it was found: its documents keep changing, and the caller leaves it alone.
/// `execution_id` is a guess; a wrong guess costs another query.
///
/// # Errors
/// Fails when the instance changes during every read.
pub(super) async fn load(store: &Store, instance_id: &str, execution_id: u64) -> Result<Loaded> {
    for _ in 0..CHANGING_READS {
        let (due_at, sent_at) = (store.now(), Instant::now());
        let found = read(store, instance_id, execution_id, due_at).await?;
        let mut loaded = Loaded::new_instance(instance_id, Vec::new());
        loaded.due_at = due_at;
        loaded.has_more_messages = found.has_more_messages;
        let mut segments = Segments::default();
        for row in found.rows {
            loaded.add(store, row, &mut segments, sent_at);
        }
        loaded.retain_due_messages();
        loaded.newest = loaded.newest_due();
        if loaded.is_for_other_code() {
            sort_cancellations_first(&mut loaded.messages);
        } else {
            sort(&mut loaded.messages);
        }
        loaded.others = split_off_others(&mut loaded.messages);
        loaded.history = LoadedHistory::Read {
            execution_id,
            segments: segments.sorted(),
            at: sent_at,
        };
        if found.in_one_page
            || loaded.is_locked(store.now())
            || is_unchanged(store, &loaded).await?
        {
            return Ok(loaded);
        }
    }
    Err(Error::Retryable(format!(
        "instance `{instance_id}` keeps changing while it is read"
    )))
}

/// Reads only the document of an instance, for its known messages. Leaves out a document that cannot be
/// decoded, which a load handles.
pub(super) async fn document(
    store: &Store,
    instance_id: &str,
    messages: &[Message],
) -> Result<Loaded> {
    let instance = match store.container.read(&InstanceKey::new(instance_id)).await {
        Err(error) if error.kind() == ErrorKind::Decode => None,
        found => found?,
    };
    Ok(Loaded {
        instance,
        ..Loaded::new_instance(instance_id, messages.to_vec())
    })
}

async fn is_unchanged(store: &Store, loaded: &Loaded) -> Result<bool> {
    let query = Query::<Instance>::in_partition(&*loaded.instance_id);
    let now = store.container.query(query).row_by_row().first().await?;
    let now = now.and_then(|row| match row {
        Ok(stored) => Some(stored.etag),
        Err(found) => found.location.map(|location| location.etag),
    });
    Ok(now.as_ref() == loaded.instance.as_ref().map(|stored| &stored.etag))
}

/// The documents that a load has found.
struct Partition {
    rows: Vec<Row>,
    /// Whether one page holds all of them.
    in_one_page: bool,
    /// Whether the partition may have more due messages.
    has_more_messages: bool,
}

/// Reads the documents of a partition, with the messages that are due at a time. If one page does not
/// hold them, a separate query reads a limited number of messages, so that a turn does not read
/// thousands of pending ones. Before the first turn of an execution it reads all of them, because any
/// number may have overtaken the start.
async fn read(
    store: &Store,
    instance_id: &str,
    execution_id: u64,
    due_at: Timestamp,
) -> Result<Partition> {
    let container = &store.container;
    let state = Filter::<Durable>::of_type::<Instance>()
        | Filter::of_type::<KeyValue>()
        | Filter::of_type::<KeyValueDelta>()
        | Filter::of_type::<KeyValuePack>()
        | HistorySegment::EXECUTION_ID.eq(execution_id).within();
    let in_partition = || Query::<Durable>::in_partition(instance_id);
    let everything = in_partition().filter(state.clone() | due_messages(due_at).within());
    let mut pages = container.query(everything).row_by_row().pages();
    let first = pages.next_page().await?;
    if !pages.has_more() {
        return Ok(Partition {
            rows: first.unwrap_or_default(),
            in_one_page: true,
            has_more_messages: false,
        });
    }
    let state = in_partition().filter(state);
    let mut rows = container.query(state).row_by_row().all().await?;
    let is_limited = rows.iter().any(is_begun) && !rows.iter().any(needs_all_messages);
    let most = is_limited.then_some(MAX_LOADED_MESSAGES);
    let messages = read_messages(store, instance_id, due_at, most).await?;
    let has_more_messages = most.is_some_and(|most| messages.len() >= most as usize);
    rows.extend(messages);
    Ok(Partition {
        rows,
        in_one_page: false,
        has_more_messages,
    })
}

/// Returns the filter for the messages that are due at a time, or reserved then.
fn due_messages(due_at: Timestamp) -> Filter<OrchestratorItem> {
    OrchestratorItem::VISIBLE_AT.between(FIRST_DUE, due_at + MESSAGE_RESERVED)
}

/// Reads the first messages that are due at a time, or all.
async fn read_messages(
    store: &Store,
    instance_id: &str,
    due_at: Timestamp,
    most: Option<u32>,
) -> Result<Vec<Row>> {
    let mut messages = Query::<OrchestratorItem>::in_partition(instance_id)
        .filter(due_messages(due_at))
        .order_by(OrchestratorItem::BY_DUE);
    if let Some(most) = most {
        messages = messages.limit(most);
    }
    let rows = store.container.query(messages).row_by_row().all().await?;
    let mut messages = Vec::with_capacity(rows.len());
    for row in rows {
        messages.push(match row {
            Ok(stored) => Ok(stored.map(Durable::OrchestratorItem)),
            Err(found) => Err(found),
        });
    }
    Ok(messages)
}

/// Reads the version of an instance, and the messages that were written or became due since a time.
/// Returns `None` if it must be loaded: one page does not hold them, or a document is unreadable.
///
/// # Errors
/// Fails when the service does not answer.
pub(super) async fn arrived(
    store: &Store,
    instance_id: &str,
    since: Timestamp,
) -> Result<Option<Arrived>> {
    let (until, sent_at) = (store.now(), Instant::now());
    let written = (since - ARRIVAL_OVERLAP).as_millis() / 1_000;
    let is_new = OrchestratorItem::WRITTEN_AT.ge(written) | OrchestratorItem::VISIBLE_AT.ge(since);
    let is_new = (due_messages(until) & is_new).within();
    let query = Query::<Durable>::in_partition(instance_id);
    let query = query.filter(Filter::of_type::<Instance>() | is_new);
    let mut pages = store.container.query(query).row_by_row().pages();
    let rows = pages.next_page().await?.unwrap_or_default();
    let mut found = Loaded::new_instance(instance_id, Vec::new());
    found.due_at = until;
    for row in rows {
        if row.is_err() {
            return Ok(None);
        }
        found.add(store, row, &mut Segments::default(), sent_at);
    }
    found.retain_due_messages();
    let instance = found.instance.filter(|_| !pages.has_more());
    Ok(instance.map(|instance| Arrived {
        version: instance.etag,
        messages: found.messages,
        until,
    }))
}

/// Leaves out the queued events for which the execution has no room.
///
/// # Errors
/// Fails when the messages behind the events cannot be read.
pub(super) async fn without_surplus_events(store: &Store, mut loaded: Loaded) -> Result<Loaded> {
    loaded.leave_surplus_events();
    if loaded.messages.is_empty() && loaded.has_more_messages {
        let sent_at = Instant::now();
        let rows = read_messages(store, &loaded.instance_id, loaded.due_at, None).await?;
        loaded.has_more_messages = false;
        let mut segments = Segments::default();
        for row in rows {
            loaded.add(store, row, &mut segments, sent_at);
        }
        loaded.retain_due_messages();
        // Not checked yet; the next attempt deletes it.
        let instance = loaded.instance.as_ref().map(|stored| &stored.document);
        let parent = Parent::of(instance, &[]);
        let is_own = |message: &Message| {
            !message.is_of_another_parent(parent) && !message.is_of_earlier_life(instance)
        };
        loaded.messages.retain(is_own);
        sort(&mut loaded.messages);
        loaded.leave_surplus_events();
    }
    Ok(loaded)
}

/// A document of the partition, decoded or not.
type Row = Result<Stored<Durable>, Unreadable>;

/// Returns whether a document is an instance that waits for one message among any number of others:
/// the start of its next execution, or while it waits for other code a cancellation.
fn needs_all_messages(row: &Row) -> bool {
    let document = row.as_ref().map(|stored| &stored.document);
    matches!(document, Ok(Durable::Instance(instance)) if instance.awaits_start() || instance.held.is_some())
}

/// Returns whether a message had arrived when its instance failed. A rewind gives queued events for
/// which the execution had no room to the next one. What came later is dropped.
fn preceded_failure(ended: &Instance, message: &Message) -> bool {
    let arrived_at = message.stored.document.enqueued_at;
    ended.status == Status::Failed && ended.completed_at.is_some_and(|end| arrived_at <= end)
}

/// Returns whether a document proves that a turn was committed.
fn is_begun(row: &Row) -> bool {
    match row.as_ref().map(|stored| &stored.document) {
        Ok(Durable::Instance(instance)) => instance.is_created(),
        Ok(Durable::History(_)) => true,
        Ok(_) => false,
        Err(found) => found.is_a::<Instance>() || found.is_a::<HistorySegment>(),
    }
}

/// Completes the history of the current execution. Returns `None` when the instance has changed.
pub(crate) async fn complete(store: &Store, mut loaded: Loaded) -> Result<Option<Loaded>> {
    let LoadedHistory::Read {
        execution_id, at, ..
    } = loaded.history
    else {
        return Ok(Some(loaded));
    };
    if loaded.current_execution() != execution_id {
        loaded.history = segments(&store.container, &loaded, at).await?;
    }
    for _ in 0..STALE_HISTORY_READS {
        if !loaded.lacks_history() {
            break;
        }
        // A lagging replica answered, or the instance moved on while the history was read.
        tokio::time::sleep(STALE_HISTORY_PAUSE).await;
        if !is_unchanged(store, &loaded).await? {
            return Ok(None);
        }
        let latest = store.container.latest_committed();
        loaded.history = segments(&latest, &loaded, at).await?;
    }
    match read_texts(store, &mut loaded).await {
        Ok(()) => {}
        Err(Error::Damaged(reason)) => loaded.history = LoadedHistory::Damaged(reason),
        Err(error) => return Err(error),
    }
    Ok(Some(loaded))
}

/// Reads texts in chunks. If the lock is won afterwards, they were current.
async fn read_texts(store: &Store, loaded: &mut Loaded) -> Result<()> {
    let kv = std::mem::take(&mut loaded.kv);
    loaded.kv = kv.unpacked(&store.container).await?;
    if let LoadedHistory::Read { segments, .. } = &mut loaded.history {
        for segment in &mut segments.documents {
            let text = std::mem::take(&mut segment.event_data);
            segment.event_data = spill::read(&store.container, text).await?.into();
        }
    }
    Ok(())
}

impl Loaded {
    /// Forgets messages that are due later. A message that is reserved is due too, because the runtime
    /// that reserved it is slower.
    fn retain_due_messages(&mut self) {
        let due_at = self.due_at;
        let messages = &mut self.messages;
        messages.retain(|message| message.stored.document.due_at() <= due_at);
    }

    /// Leaves out the queued events for which the execution has no room, and notes their queues.
    fn leave_surplus_events(&mut self) {
        let mut all = std::mem::take(&mut self.messages);
        all.append(&mut self.others);
        let has_events = all.iter().any(|message| message.queue().is_some());
        // Without its history, the turn fails the instance.
        let history = has_events.then(|| self.history().ok()).flatten();
        let mut room = history
            .as_ref()
            .map(|history| Room::before(&history.events, &all));
        let instance = self.instance.as_ref().map(|stored| &stored.document);
        let ended = instance.filter(|instance| !instance.has_more());
        let admitted = all
            .iter()
            .map(|message| match (&mut room, message.queue(), ended) {
                (Some(room), Some(queue), None) => room.admits(queue),
                (Some(room), Some(queue), Some(ended)) => {
                    let is_known_left = ended.untaken_events.is_some();
                    !preceded_failure(ended, message) || (!is_known_left && room.admits(queue))
                }
                _ => true,
            });
        let admitted: Vec<bool> = admitted.collect();
        let (mut messages, mut left) = (Vec::new(), Vec::new());
        let mut full = BTreeSet::new();
        for (message, is_admitted) in all.into_iter().zip(admitted) {
            if is_admitted {
                messages.push(message);
            } else {
                full.extend(message.queue().map(str::to_owned));
                left.push(message);
            }
        }
        left.extend(split_off_others(&mut messages));
        self.messages = messages;
        self.full = full;
        if let LoadedHistory::Read { at, .. } = self.history {
            sort(&mut left);
            let is_complete = left.len() <= MAX_NOTED && !self.has_more_messages;
            left.truncate(MAX_NOTED);
            self.left = Left::Found {
                messages: left,
                complete_until: is_complete.then_some(self.due_at),
                at,
            };
        }
    }

    /// Adds a document that a query sent at `sent_at` has found.
    fn add(&mut self, store: &Store, row: Row, segments: &mut Segments, sent_at: Instant) {
        let row = match row {
            Ok(row) => row,
            Err(found) => {
                store.corrupt_documents.report(&found);
                return self.add_corrupt(&found, segments, sent_at);
            }
        };
        let mut document = None;
        // A document of a variant keeps id, ETag and timestamp of its row.
        let row = row.map(|found| document = Some(found));
        let Some(document) = document else { return };
        match document {
            Durable::Instance(instance) => self.instance = Some(row.map(|()| instance)),
            Durable::OrchestratorItem(item) => {
                self.messages
                    .push(Message::read(row.map(|()| item), sent_at));
            }
            Durable::KeyValue(_) | Durable::KeyValueDelta(_) | Durable::KeyValuePack(_) => {
                self.kv.add(row.map(|()| document));
            }
            Durable::History(segment) => segments.documents.push(segment),
            Durable::Execution(_)
            | Durable::WorkerItem(_)
            | Durable::OutboxIntent(_)
            | Durable::Inbox(_)
            | Durable::Session(_)
            | Durable::Member(_)
            | Durable::Schema(_)
            | Durable::Chunk(_)
            | Durable::Spill(_)
            | Durable::Limits(_)
            | Durable::LimitedKey(_)
            | Durable::RuntimeLease(_) => {}
        }
    }

    /// Adds the readable part of a corrupt document. The instance is still processed: the runtime
    /// gets the reason, retries, and fails the instance with it.
    fn add_corrupt(&mut self, found: &Unreadable, segments: &mut Segments, sent_at: Instant) {
        if let Some(message) = OrchestratorItem::partial_stored(found) {
            self.messages.push(Message::read(message, sent_at));
        } else if found.is_a::<HistorySegment>() {
            segments.damage = Some(found.to_string());
        } else {
            self.damage = Some(found.to_string());
        }
        if let Some(instance) = Instance::partial_stored(found) {
            self.instance = Some(instance);
        }
    }
}

async fn segments(
    container: &ContainerClient<Durable>,
    loaded: &Loaded,
    at: Instant,
) -> Result<LoadedHistory> {
    let execution_id = loaded.current_execution();
    let instance_id = &loaded.instance_id;
    let segments = history::read_segments(container, instance_id, execution_id).await?;
    Ok(LoadedHistory::Read {
        execution_id,
        segments,
        at,
    })
}
