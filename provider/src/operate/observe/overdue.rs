//! Overdue messages that no runtime should take yet. They stay due, in any number, so more runtimes do not help.

use std::collections::BTreeSet;

use cdb_client::Result;
use cdb_model::Timestamp;
use duroxide::providers::WorkItem;

use super::sample::{self, Container, Instances, Oldest};
use crate::stored::documents::{Instance, OrchestratorItem, Status};

/// The most messages that are read, oldest first.
const MESSAGES: u32 = 10_000;

/// The messages that were due before a time, as far as a sample shows them.
pub(super) struct Overdue<'a> {
    /// The oldest messages.
    pub(super) sample: &'a Oldest<OrchestratorItem>,
    pub(super) before: Timestamp,
    /// Whether limits may keep new instances from beginning.
    pub(super) may_not_begin: bool,
}

impl<'a> Overdue<'a> {
    fn of_sample(&self) -> impl Iterator<Item = &'a OrchestratorItem> {
        let (items, before) = (self.sample.items.iter(), self.before);
        items.take_while(move |message| message.visible_at <= before)
    }

    /// Returns the instances that the messages of the sample are for.
    pub(super) fn instances(&self) -> BTreeSet<String> {
        let ids = self.of_sample().map(|message| &message.instance_id);
        ids.cloned().collect()
    }

    /// Returns the number of instances with such messages, if each message waits for its instance, or may wait for a
    /// limit that keeps new instances from beginning. `None` if there are none, or a runtime should take some.
    pub(super) async fn at_instances(
        &self,
        container: &Container,
        known: &Instances,
    ) -> Result<Option<usize>> {
        let all_wait = self.of_sample().all(|message| self.waits(message, known));
        let ids = self.instances();
        if ids.is_empty() || !all_wait {
            return Ok(None);
        }
        let has_later = self.of_sample().count() < self.sample.items.len();
        if self.sample.is_complete || has_later {
            return Ok(Some(ids.len()));
        }
        self.beyond_sample(container).await
    }

    async fn beyond_sample(&self, container: &Container) -> Result<Option<usize>> {
        let overdue = sample::due_messages(self.before).limit(MESSAGES);
        let mut pages = container.query(overdue).pages();
        let mut seen = BTreeSet::<String>::new();
        while let Some(page) = pages.next_page().await? {
            let messages: Vec<_> = page.into_iter().map(|stored| stored.document).collect();
            let ids = messages.iter().map(|message| message.instance_id.clone());
            let ids: BTreeSet<_> = ids.collect();
            let instances = sample::instances(container, ids.clone()).await?;
            if !messages
                .iter()
                .all(|message| self.waits(message, &instances))
            {
                return Ok(None);
            }
            seen.extend(ids);
        }
        Ok(Some(seen.len()))
    }

    fn waits(&self, message: &OrchestratorItem, known: &Instances) -> bool {
        let instance = known.get(&message.instance_id);
        waits(message, instance, self.may_not_begin)
    }
}

/// Returns whether a due message waits for its instance, and not for a runtime. `may_not_begin`: limits may keep
/// instances from beginning.
fn waits(message: &OrchestratorItem, instance: Option<&Instance>, may_not_begin: bool) -> bool {
    let Ok(item) = serde_json::from_str(message.work_item.header()) else {
        return false;
    };
    let is_queued = matches!(item, WorkItem::QueueMessage { .. });
    let may_come_early = is_queued
        || matches!(
            item,
            WorkItem::ExternalRaised { .. } | WorkItem::CancelInstance { .. }
        );
    let is_start = matches!(item, WorkItem::StartOrchestration { .. });
    match instance {
        None if is_start && may_not_begin => true,
        Some(instance) if is_start && !instance.is_created() && instance.attempts.is_empty() => {
            may_not_begin
        }
        Some(instance) if instance.has_more() && instance.held.is_some() => true,
        // Its start is a message, too. If that is overdue, a runtime should take it.
        Some(instance) if !instance.is_created() || instance.status == Status::ContinuedAsNew => {
            may_come_early
        }
        Some(instance) => is_queued && instance.untaken_events.is_some(),
        None => may_come_early,
    }
}
