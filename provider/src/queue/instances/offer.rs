//! Which messages are handed over to a turn of this process before they are stored.

use std::time::Duration;

use super::message::Message;
use super::queue::InstanceQueue;
use crate::queue::hand_over::Budget;
use crate::stored::documents::WorkerItem;

/// A turn of this process that is to take a completion.
#[derive(Debug)]
pub(crate) struct NextTurn {
    pub(crate) orchestration: String,
    /// How long the completion waits for it.
    pub(crate) within: Duration,
}

impl InstanceQueue {
    /// Returns the turn that will take the completion of an activity; `None` if it must be stored. If it
    /// `may_wait`, a dispatcher that is at work may take it next.
    pub(crate) fn next_turn(
        &self,
        activity: &WorkerItem,
        budget: &Budget,
        may_wait: bool,
    ) -> Option<NextTurn> {
        let key = activity.instance_id.clone();
        if self.was_paused(&key) {
            return None;
        }
        self.local().with(|queue, now| {
            let known = queue.known(&key)?;
            if known.has_cancelled((activity.execution_id, activity.activity_id)) {
                return None;
            }
            let orchestration = known.takes_completions()?;
            let next = NextTurn {
                within: budget.of(orchestration, now)?,
                orchestration: orchestration.to_owned(),
            };
            let is_taken = budget.is_always() || queue.takes_soon(&key, may_wait);
            is_taken.then_some(next)
        })
    }

    /// Returns how long the start of an instance waits for its first turn; `None` if it must be stored.
    pub(crate) fn first_turn(
        &self,
        instance_id: &str,
        orchestration: &str,
        budget: &Budget,
    ) -> Option<Duration> {
        let key = instance_id.to_owned();
        self.local().with(|queue, now| {
            let within = budget.of(orchestration, now)?;
            let is_new = queue.known(&key).is_none() && !queue.has_rules();
            let is_taken = (budget.is_always() && is_new) || queue.takes_at_once(&key);
            is_taken.then_some(within)
        })
    }

    /// Hands a message over to the next turn. If none takes it, its ticket is dropped.
    pub(crate) fn hand_over(&self, message: Message) {
        let key = message.stored.document.instance_id.clone();
        self.local().with(|queue, now| {
            queue.learn(&key, now, |known| known.note(message, now, Some(now)));
        });
    }
}
