//! What a turn sends: activities and messages, for its own partition and for others.
//!
//! Everything leaves with the commit. What does not fit into the commit's batch beside the turn itself goes into intents,
//! which hold many items in one document; an item of the own partition may travel that way too.

use std::collections::{BTreeMap, HashSet};

use cdb_model::limits::{MAX_BATCH_OPERATIONS, MAX_REQUEST_BYTES};
use cdb_model::{Batch, BatchError, OperationIndex, Timestamp};
use duroxide::providers::WorkItem;

use crate::documents::{
    Durable, IntentItem, IntentQueue, OrchestratorItem, OutboxIntent, Text, WorkerItem,
    target_instance,
};
use crate::instances::TurnResult;
use crate::spill::Spilling;

/// Most bytes of messages in one intent, so that the document stays below the service's 2 MB with its escapes.
const INTENT_BYTES: usize = 700 * 1024;

/// What surrounds a message in an intent, about.
const ITEM_BYTES: usize = 96;

/// What the number of an event takes in an intent, about.
const NUMBER_BYTES: usize = 8;

/// How much of a turn that is too large for its batch may still leave in intents of the usual form.
const SPILLED_INTENTS: usize = 16;
const SPILLED_INTENTS_BYTES: usize = 512 * 1024;

/// What a turn sends, sorted by the way it goes.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    pub(super) workers: Vec<WorkerItem>,
    pub(super) own: Vec<OrchestratorItem>,
    pub(super) intents: Vec<OutboxIntent>,
}

/// Where the items of a turn come from.
#[derive(Debug)]
pub(super) struct Origin<'a> {
    pub(super) instance_id: &'a str,
    /// The turn's token: unique, so that everything derived from it is.
    pub(super) token: &'a str,
    pub(super) now: Timestamp,
    /// What this machine's clock shows at `now`: duroxide takes the times of timers from it.
    pub(super) machine_now: Timestamp,
}

impl Outgoing {
    /// Sorts the items of a turn. An activity that is cancelled in the turn that schedules it is never sent.
    ///
    /// # Errors
    /// When an item cannot be written as JSON.
    pub(super) fn sort(
        origin: &Origin<'_>,
        result: &TurnResult,
    ) -> Result<Self, serde_json::Error> {
        let cancelled = result.cancelled.iter();
        let cancelled: HashSet<_> = cancelled
            .map(|of| (&*of.instance, of.execution_id, of.activity_id))
            .collect();
        let mut sorted = Self::default();
        let mut others: BTreeMap<&str, Vec<IntentItem>> = BTreeMap::new();
        for item in &result.worker_items {
            let Some(worker) = WorkerItem::new(item, origin.now)? else {
                continue;
            };
            let activity = (
                &*worker.instance_id,
                worker.execution_id,
                worker.activity_id,
            );
            if cancelled.contains(&activity) {
                continue;
            }
            if worker.instance_id == origin.instance_id {
                sorted.workers.push(worker);
            } else {
                let items = others.entry(target_instance(item)).or_default();
                items.push(intent_activity(worker));
            }
        }
        for (number, item) in result.orchestrator_items.iter().enumerate() {
            let visible_at = due(item, origin);
            let target = target_instance(item);
            if target == origin.instance_id {
                let cause = format!("{}-{number}", origin.token);
                let message = OrchestratorItem::new(item, cause, visible_at, origin.now)?;
                sorted.own.push(message);
            } else {
                others.entry(target).or_default().push(IntentItem {
                    queue: IntentQueue::Orchestrator,
                    work_item: Text::Inline(serde_json::to_string(item)?),
                    visible_at,
                });
            }
        }
        for (target, items) in others {
            sorted.pack(origin, target, items);
        }
        Ok(sorted)
    }

    /// Puts items into as few intents as their size allows.
    fn pack(&mut self, origin: &Origin<'_>, target: &str, items: Vec<IntentItem>) {
        // Full from the start: the first item opens an intent of its own, never the one of another target.
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
                        ..OutboxIntent::new(origin.instance_id, key, target, origin.now)
                    };
                    self.intents.push(intent);
                }
            }
        }
    }

    /// Bytes of everything that is sent.
    pub(super) fn bytes(&self) -> usize {
        let workers = self.workers.iter().map(|item| &item.work_item);
        let own = self.own.iter().map(|item| &item.work_item);
        let intents = self.intents.iter().flat_map(|intent| &intent.items);
        let texts = workers
            .chain(own)
            .chain(intents.map(|item| &item.work_item));
        texts.map(Text::bytes).sum()
    }

    /// Makes room: when the rest does not fit beside `taken`, everything for the own partition leaves by intents too.
    /// Returns whether it does.
    pub(super) fn fit(&mut self, origin: &Origin<'_>, taken: &Batch<Durable>) -> bool {
        let workers = self.workers.iter().map(|item| item_bytes(&item.work_item));
        let own = self.own.iter().map(|item| item_bytes(&item.work_item));
        let intents = self.intents.iter().map(intent_bytes);
        let size: usize = workers.chain(own).chain(intents).sum();
        let count = self.workers.len() + self.own.len() + self.intents.len();
        let fits = taken.len() + count <= MAX_BATCH_OPERATIONS
            // Items are text inside JSON: quotation marks are escaped and take two bytes.
            && taken.size_bytes() + size + size / 4 <= MAX_REQUEST_BYTES;
        if fits {
            return false;
        }
        let items = self.take_own();
        self.pack(origin, origin.instance_id, items);
        true
    }

    /// The items of the own partition, as they travel by intents.
    fn take_own(&mut self) -> Vec<IntentItem> {
        let workers = std::mem::take(&mut self.workers).into_iter();
        let workers = workers.map(intent_activity);
        let own = std::mem::take(&mut self.own)
            .into_iter()
            .map(|item| IntentItem {
                queue: IntentQueue::Orchestrator,
                work_item: item.work_item,
                visible_at: item.visible_at,
            });
        workers.chain(own).collect()
    }

    /// Moves large texts out of the commit; and when what is left has no room in it, everything into one intent.
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
            spilling.relieve_message(text)?;
        }
        let size: usize = self.intents.iter().map(intent_bytes).sum();
        if self.intents.len() <= SPILLED_INTENTS && size <= SPILLED_INTENTS_BYTES {
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
            ..OutboxIntent::new(origin.instance_id, key, origin.instance_id, origin.now)
        });
        Ok(())
    }

    /// Leaves the messages that are due to the runtime that commits them.
    pub(super) fn reserve(&mut self, now: Timestamp) {
        let own = std::mem::take(&mut self.own);
        self.own = own.into_iter().map(|item| item.reserved(now)).collect();
    }

    /// Adds everything to the commit.
    pub(super) fn add_to(&self, batch: &mut Batch<Durable>) -> Result<Placed, BatchError> {
        let workers = self.workers.iter().map(|item| batch.create(item));
        let workers = workers.collect::<Result<_, _>>()?;
        let own = self.own.iter().map(|item| batch.create(item));
        let own = own.collect::<Result<_, _>>()?;
        for intent in &self.intents {
            batch.create(intent)?;
        }
        Ok(Placed { workers, own })
    }
}

/// An activity as an intent carries it.
fn intent_activity(item: WorkerItem) -> IntentItem {
    IntentItem {
        queue: IntentQueue::Worker,
        work_item: item.work_item,
        visible_at: item.visible_at,
    }
}

/// Where in the commit the items of the own partition are, in their order.
#[derive(Debug, Default)]
pub(super) struct Placed {
    pub(super) workers: Vec<OperationIndex>,
    pub(super) own: Vec<OperationIndex>,
}

/// What a message takes in a document of its own, about.
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

/// When a message is due. A timer's says so itself, by the clock of the machine that set it: this one.
fn due(item: &WorkItem, origin: &Origin<'_>) -> Timestamp {
    match item {
        WorkItem::TimerFired { fire_at_ms, .. } => {
            origin.now + Timestamp::from_millis(*fire_at_ms).since(origin.machine_now)
        }
        _ => origin.now,
    }
}

#[cfg(test)]
mod tests {
    use duroxide::providers::{ExecutionMetadata, ScheduledActivityIdentifier};

    use super::*;

    const ORIGIN: Origin<'_> = Origin {
        instance_id: "parent",
        token: "t",
        now: Timestamp::from_millis(1_000),
        machine_now: Timestamp::from_millis(31_000),
    };

    fn sent(worker_items: &[WorkItem], orchestrator_items: &[WorkItem]) -> TurnResult {
        TurnResult {
            execution_id: 1,
            history_delta: Vec::new(),
            worker_items: worker_items.to_vec(),
            orchestrator_items: orchestrator_items.to_vec(),
            metadata: ExecutionMetadata::default(),
            cancelled: Vec::new(),
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
    fn messages_to_one_instance_travel_together() {
        let items = [
            event("a", "1"),
            event("b", "2"),
            event("a", "3"),
            event("parent", "4"),
        ];
        let sorted = Outgoing::sort(&ORIGIN, &sent(&[], &items)).unwrap();
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
        let sorted = Outgoing::sort(&ORIGIN, &sent(&[], &items)).unwrap();
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
    fn a_timer_fires_in_time_whatever_the_clock_shows_of_the_machine_that_set_it() {
        let timer = |fire_at_ms| WorkItem::TimerFired {
            instance: "parent".to_owned(),
            execution_id: 1,
            id: 2,
            fire_at_ms,
        };
        // The machine is half a minute ahead of the service.
        let items = [timer(31_250), timer(1_250)];
        let sorted = Outgoing::sort(&ORIGIN, &sent(&[], &items)).unwrap();
        let due: Vec<_> = sorted.own.iter().map(|item| item.visible_at).collect();
        assert_eq!(due, [1_250, 1_000].map(Timestamp::from_millis));
    }

    #[test]
    fn what_is_cancelled_in_its_own_turn_is_never_sent() {
        let mut result = sent(&[activity(1, ""), activity(2, "")], &[]);
        result.cancelled.push(ScheduledActivityIdentifier {
            instance: "parent".to_owned(),
            execution_id: 1,
            activity_id: 2,
        });
        let sorted = Outgoing::sort(&ORIGIN, &result).unwrap();
        assert_eq!(sorted.workers.len(), 1);
        assert_eq!(sorted.workers[0].activity_id, 1);
    }

    #[test]
    fn more_than_a_batch_holds_leaves_in_a_few_intents() {
        let items: Vec<_> = (0..5_000).map(|id| activity(id, "input")).collect();
        let mut sorted = Outgoing::sort(&ORIGIN, &sent(&items, &[])).unwrap();
        let mut batch = Batch::new("parent");
        assert!(sorted.fit(&ORIGIN, &batch));
        assert!(sorted.workers.is_empty());
        let sent: usize = sorted.intents.iter().map(|intent| intent.items.len()).sum();
        assert_eq!(sent, 5_000);
        sorted.add_to(&mut batch).unwrap();
        assert!(batch.len() < 5, "{} operations", batch.len());
    }
}
