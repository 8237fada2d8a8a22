//! The activities and messages that a turn sends, to its own partition and to others.
//!
//! All of them leave with the commit. Those that do not fit into the commit's batch are packed into
//! intents, which hold many items in one document. Items of the own partition may be packed too.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use cdb_model::limits::{MAX_BATCH_OPERATIONS, MAX_REQUEST_BYTES};
use cdb_model::operation::{BatchError, OperationIndex};
use cdb_model::{Batch, Document as _, Timestamp};
use duroxide::providers::WorkItem;

use crate::queue::instances::TurnResult;
use crate::stored::documents::{
    Durable, IntentItem, IntentQueue, Labels, OrchestratorItem, OutboxIntent, Text, WorkerItem,
};
use crate::stored::spill::Spilling;

/// The most bytes of messages in one intent. With JSON escapes the document stays below the
/// service's 2 MB.
const INTENT_BYTES: usize = 700 * 1024;

/// The approximate overhead of a message in an intent.
const ITEM_BYTES: usize = 96;

/// The approximate bytes of an activity id in an intent.
const NUMBER_BYTES: usize = 8;

/// The limits of what a turn that is too large for its batch sends in plain form: its intents, and
/// the bytes of all its items.
const SPILLED_INTENTS: usize = 16;
const SPILLED_BYTES: usize = 512 * 1024;

/// The items that a turn sends, by route.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    pub(super) workers: Vec<WorkerItem>,
    pub(super) own: Vec<OrchestratorItem>,
    pub(super) intents: Vec<OutboxIntent>,
}

/// The origin of a turn's items.
#[derive(Debug)]
pub(super) struct Origin<'a> {
    pub(super) instance_id: &'a str,
    /// The token of the turn. It is unique, so everything derived from it is.
    pub(super) token: &'a str,
    pub(super) now: Timestamp,
    /// Messages that arrive again are due before this time: before those that are still queued.
    pub(super) before: Option<Timestamp>,
    /// The creation of the instance, and of its parent if that is known.
    pub(super) created_at: Timestamp,
    pub(super) parent_created_at: Option<Timestamp>,
    /// The time on this machine's clock at `now`. duroxide sets timers by that clock.
    pub(super) machine_now: Timestamp,
    /// The request units that the instance was charged since its last commit.
    pub(super) charge: f64,
    /// What limits select the activities of the turn by.
    pub(super) labels: Labels,
}

impl Origin<'_> {
    /// Returns an intent without messages.
    fn intent(&self, key: String, target: &str) -> OutboxIntent {
        OutboxIntent {
            labels: Some(self.labels.clone()),
            sender_created_at: Some(self.created_at),
            parent_created_at: self.parent_created_at,
            ..OutboxIntent::new(self.instance_id, key, target, self.now)
        }
    }
}

impl Outgoing {
    /// Sorts the items of a turn by route. An activity that is cancelled in the turn that schedules
    /// it is never sent.
    ///
    /// # Errors
    /// Fails when an item cannot be written as JSON.
    pub(super) fn of(origin: &Origin<'_>, result: &TurnResult) -> Result<Self, serde_json::Error> {
        let cancelled = result.cancelled.iter();
        let cancelled: HashSet<_> = cancelled
            .map(|of| (&*of.instance, of.execution_id, of.activity_id))
            .collect();
        let is_cancelled = |worker: &WorkerItem| {
            let (execution_id, activity_id) = (worker.execution_id, worker.activity_id);
            cancelled.contains(&(&*worker.instance_id, execution_id, activity_id))
        };
        let mut sorted = Self::default();
        // Items for other instances, by target.
        let mut others = BTreeMap::<String, Vec<IntentItem>>::new();
        for item in &result.worker_items {
            match WorkerItem::new(item, origin.now)? {
                Some(worker) if is_cancelled(&worker) => {}
                Some(worker) if worker.instance_id == origin.instance_id => {
                    sorted.workers.push(worker.with_labels(&origin.labels));
                }
                Some(worker) => {
                    let items = others.entry(worker.instance_id.clone()).or_default();
                    items.push(intent_activity(worker));
                }
                None => {}
            }
        }
        let last = result.orchestrator_items.len() as u64;
        for (number, item) in result.orchestrator_items.iter().enumerate() {
            let cause = format!("{}-{number}", origin.token);
            let due = match (due_after(item, origin.machine_now), origin.before) {
                // Each at a time of its own, because messages of one time are ordered by their ids.
                (Duration::ZERO, Some(before)) => {
                    before - Duration::from_millis(last - number as u64)
                }
                (after, _) => origin.now + after,
            };
            let message = OrchestratorItem::new(item, cause, due, origin.now)?;
            if message.instance_id == origin.instance_id {
                sorted.own.push(message);
            } else {
                let items = others.entry(message.instance_id.clone()).or_default();
                items.push(intent_message(message));
            }
        }
        for (target, items) in others {
            sorted.pack(origin, &target, items);
        }
        Ok(sorted)
    }

    /// Packs items into as few intents as their size allows.
    fn pack(&mut self, origin: &Origin<'_>, target: &str, items: Vec<IntentItem>) {
        // Starts full: the first item opens a new intent instead of joining that of another target.
        let mut bytes = usize::MAX;
        for item in items {
            let size = item.work_item.header().len() + ITEM_BYTES;
            match self.intents.last_mut() {
                Some(intent) if bytes.saturating_add(size) <= INTENT_BYTES => {
                    bytes += size;
                    intent.items.push(item);
                }
                _ => {
                    bytes = size;
                    let key = format!("{}-{}", origin.token, self.intents.len());
                    let intent = OutboxIntent {
                        items: vec![item],
                        ..origin.intent(key, target)
                    };
                    self.intents.push(intent);
                }
            }
        }
    }

    /// Returns the bytes of everything that is sent.
    pub(super) fn bytes(&self) -> usize {
        let intents = self.intents.iter().flat_map(|intent| &intent.items);
        let texts = self.own_texts().chain(intents.map(|item| &item.work_item));
        texts.map(Text::bytes).sum()
    }

    /// Returns the approximate size of all documents.
    fn size(&self) -> usize {
        let intents = self.intents.iter().map(intent_bytes);
        self.own_texts().map(item_bytes).chain(intents).sum()
    }

    /// Returns the texts of the items of the own partition.
    fn own_texts(&self) -> impl Iterator<Item = &Text> {
        let workers = self.workers.iter().map(|item| &item.work_item);
        workers.chain(self.own.iter().map(|item| &item.work_item))
    }

    /// Moves the items of the own partition into intents if everything does not fit beside `taken`.
    pub(super) fn overflow_into_intents(&mut self, origin: &Origin<'_>, taken: &Batch<Durable>) {
        let size = self.size();
        let count = self.workers.len() + self.own.len() + self.intents.len();
        let fits = taken.len() + count <= MAX_BATCH_OPERATIONS
            // Items are text inside JSON: quotation marks are escaped and take two bytes.
            && taken.size_bytes() + size + size / 4 <= MAX_REQUEST_BYTES;
        if !fits {
            let items = self.take_own();
            self.pack(origin, origin.instance_id, items);
        }
    }

    /// Takes the items of the own partition, in the form of intents.
    fn take_own(&mut self) -> Vec<IntentItem> {
        let workers = std::mem::take(&mut self.workers).into_iter();
        let workers = workers.map(intent_activity);
        let own = std::mem::take(&mut self.own).into_iter();
        workers.chain(own.map(intent_message)).collect()
    }

    /// Moves large texts into chunks. If the rest is still too large for the commit, moves all
    /// items into one intent.
    pub(super) fn spill(
        &mut self,
        origin: &Origin<'_>,
        spilling: &mut Spilling,
    ) -> Result<(), serde_json::Error> {
        let workers = self.workers.iter_mut().map(|item| &mut item.work_item);
        let own = self.own.iter_mut().map(|item| &mut item.work_item);
        let intents = self.intents.iter_mut().flat_map(|intent| &mut intent.items);
        let texts = workers
            .chain(own)
            .chain(intents.map(|item| &mut item.work_item));
        for text in texts {
            spilling.spill_message(text)?;
        }
        if self.intents.len() <= SPILLED_INTENTS && self.size() <= SPILLED_BYTES {
            return Ok(());
        }
        let mut items = self.take_own();
        let intents = std::mem::take(&mut self.intents).into_iter();
        let (cancelled, intents): (Vec<_>, Vec<_>) =
            intents.partition(|intent| !intent.cancelled.is_empty());
        self.intents = cancelled;
        items.extend(intents.into_iter().flat_map(|intent| intent.items));
        let list = serde_json::to_string(&items)?;
        let key = format!("{}-0", origin.token);
        self.intents.push(OutboxIntent {
            more: Some(spilling.cut(origin.instance_id, &list)),
            ..origin.intent(key, origin.instance_id)
        });
        Ok(())
    }

    /// Reserves due messages for the runtime that commits them.
    pub(super) fn reserve(&mut self, now: Timestamp) {
        let own = std::mem::take(&mut self.own);
        self.own = own.into_iter().map(|item| item.reserved(now)).collect();
    }

    /// Adds everything to the commit.
    pub(super) fn add_to(&self, batch: &mut Batch<Durable>) -> Result<SentOperations, BatchError> {
        let workers = self.workers.iter().map(|item| batch.add(item.create()));
        let workers = workers.collect::<Result<_, _>>()?;
        let own = self.own.iter().map(|item| batch.add(item.create()));
        let own = own.collect::<Result<_, _>>()?;
        for intent in &self.intents {
            batch.add(intent.create())?;
        }
        Ok(SentOperations { workers, own })
    }
}

/// Converts an activity to an item of an intent.
fn intent_activity(item: WorkerItem) -> IntentItem {
    IntentItem {
        queue: IntentQueue::Worker,
        work_item: item.work_item,
        visible_at: item.visible_at,
    }
}

/// Converts a message to an item of an intent.
fn intent_message(item: OrchestratorItem) -> IntentItem {
    IntentItem {
        queue: IntentQueue::Orchestrator,
        work_item: item.work_item,
        visible_at: item.visible_at,
    }
}

/// The operations of the commit that create items of the own partition, in order.
#[derive(Debug, Default)]
pub(super) struct SentOperations {
    pub(super) workers: Vec<OperationIndex>,
    pub(super) own: Vec<OperationIndex>,
}

/// Returns the approximate size of a message in a document of its own.
fn item_bytes(text: &Text) -> usize {
    text.header().len() + 512
}

fn intent_bytes(intent: &OutboxIntent) -> usize {
    let items = intent.items.iter();
    let cancelled = intent.cancelled.iter();
    let cancelled: usize = cancelled
        .map(|of| (of.small.len() + of.large.len()) * NUMBER_BYTES)
        .sum();
    512 + cancelled
        + items
            .map(|item| item.work_item.header().len() + ITEM_BYTES)
            .sum::<usize>()
}

/// Returns how long after `machine_now` a message is due. A timer carries its due time, by the clock
/// of this machine; other messages are due at once.
fn due_after(item: &WorkItem, machine_now: Timestamp) -> Duration {
    match item {
        WorkItem::TimerFired { fire_at_ms, .. } => {
            Timestamp::from_millis(*fire_at_ms).since(machine_now)
        }
        _ => Duration::ZERO,
    }
}

#[cfg(test)]
mod tests {
    use duroxide::providers::{ExecutionMetadata, ScheduledActivityIdentifier, WorkItem};

    use super::*;

    const ORIGIN: Origin<'_> = Origin {
        instance_id: "parent",
        token: "t",
        now: Timestamp::from_millis(1_000),
        before: None,
        created_at: Timestamp::from_millis(500),
        parent_created_at: None,
        machine_now: Timestamp::from_millis(31_000),
        charge: 0.0,
        labels: Labels {
            activity: String::new(),
            orchestration: String::new(),
            tag: None,
            of_instance: BTreeMap::new(),
        },
    };

    fn turn_result(worker_items: &[WorkItem], orchestrator_items: &[WorkItem]) -> TurnResult {
        TurnResult {
            execution_id: 1,
            history_delta: Vec::new(),
            worker_items: worker_items.to_vec(),
            orchestrator_items: orchestrator_items.to_vec(),
            metadata: ExecutionMetadata::default(),
            cancelled: Vec::new(),
            restored: BTreeMap::new(),
        }
    }

    fn activity(id: u64, input: &str) -> WorkItem {
        WorkItem::ActivityExecute {
            instance: "parent".to_owned(),
            execution_id: 1,
            id,
            name: "Work".to_owned(),
            input: input.to_owned(),
            session_id: None,
            tag: None,
        }
    }

    fn event(instance: &str, data: &str) -> WorkItem {
        WorkItem::ExternalRaised {
            instance: instance.to_owned(),
            name: "Event".to_owned(),
            data: data.to_owned(),
        }
    }

    #[test]
    fn messages_to_one_instance_share_an_intent() {
        let items = [
            event("a", "1"),
            event("b", "2"),
            event("a", "3"),
            event("parent", "4"),
        ];
        let sorted = Outgoing::of(&ORIGIN, &turn_result(&[], &items)).unwrap();
        assert_eq!(sorted.own.len(), 1);
        let targets: Vec<_> = sorted
            .intents
            .iter()
            .map(|intent| (&*intent.target_instance_id, intent.items.len()))
            .collect();
        assert_eq!(targets, [("a", 2), ("b", 1)]);
    }

    #[test]
    fn targets_never_share_an_intent() {
        let large = "x".repeat(INTENT_BYTES / 2);
        let items = [
            event("a", &large),
            event("a", &large),
            event("a", "s"),
            event("b", "s"),
        ];
        let sorted = Outgoing::of(&ORIGIN, &turn_result(&[], &items)).unwrap();
        let targets: Vec<_> = sorted
            .intents
            .iter()
            .map(|intent| (&*intent.target_instance_id, intent.items.len()))
            .collect();
        assert_eq!(targets, [("a", 1), ("a", 2), ("b", 1)]);
        let keys: HashSet<_> = sorted.intents.iter().map(|i| &i.idempotency_key).collect();
        assert_eq!(keys.len(), 3);
    }

    #[test]
    fn a_timer_is_due_on_time_despite_clock_skew_of_its_machine() {
        let timer = |fire_at_ms| WorkItem::TimerFired {
            instance: "parent".to_owned(),
            execution_id: 1,
            id: 2,
            fire_at_ms,
        };
        // The clock of the machine is half a minute ahead of the service.
        let items = [timer(31_250), timer(1_250)];
        let sorted = Outgoing::of(&ORIGIN, &turn_result(&[], &items)).unwrap();
        let due: Vec<_> = sorted.own.iter().map(|item| item.visible_at).collect();
        assert_eq!(due, [1_250, 1_000].map(Timestamp::from_millis));
    }

    #[test]
    fn an_activity_cancelled_in_its_own_turn_is_never_sent() {
        let mut result = turn_result(&[activity(1, ""), activity(2, "")], &[]);
        result.cancelled.push(ScheduledActivityIdentifier {
            instance: "parent".to_owned(),
            execution_id: 1,
            activity_id: 2,
        });
        let sorted = Outgoing::of(&ORIGIN, &result).unwrap();
        assert_eq!(sorted.workers.len(), 1);
        assert_eq!(sorted.workers[0].activity_id, 1);
    }

    #[test]
    fn items_beyond_the_batch_limit_leave_in_a_few_intents() {
        let items: Vec<_> = (0..5_000).map(|id| activity(id, "input")).collect();
        let mut sorted = Outgoing::of(&ORIGIN, &turn_result(&items, &[])).unwrap();
        let mut batch = Batch::new("parent");
        sorted.overflow_into_intents(&ORIGIN, &batch);
        assert!(sorted.own.is_empty() && sorted.workers.is_empty());
        let sent: usize = sorted.intents.iter().map(|intent| intent.items.len()).sum();
        assert_eq!(sent, 5_000);
        sorted.add_to(&mut batch).unwrap();
        assert!(batch.len() < 5, "{} operations", batch.len());
    }
}
