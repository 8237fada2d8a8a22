//! Which messages are handed over to a turn of this process before they are stored.

use std::time::{Duration, Instant};

use super::known::Instances;
use super::message::Message;
use super::queue::InstanceQueue;
use crate::queue::hand_over::Budget;
use crate::queue::local_queue::{Queue, Takers};
use crate::stored::documents::WorkerItem;

/// A turn of this process that is to take a message.
#[derive(Debug)]
pub(crate) struct NextTurn {
    pub(crate) orchestration: String,
    /// How long the message waits for it.
    pub(crate) within: Duration,
}

impl InstanceQueue {
    /// Returns the turn that will take the completion of an activity, if one of these dispatchers will; `None`
    /// if it must be stored.
    pub(crate) fn next_turn(
        &self,
        activity: &WorkerItem,
        budget: &Budget,
        takers: Takers,
    ) -> Option<NextTurn> {
        if self.was_paused(&activity.instance_id) {
            return None;
        }
        let local = self.local();
        local.with(|queue, now| next_turn(queue, activity, budget, takers, now))
    }

    /// Hands the completion of an activity over to its next turn, as [`Self::next_turn`] decides. If no turn
    /// takes the message, its ticket is dropped.
    pub(crate) fn hand_over(
        &self,
        message: Message,
        activity: &WorkerItem,
        budget: &Budget,
        takers: Takers,
    ) -> Option<NextTurn> {
        if self.was_paused(&activity.instance_id) {
            return None;
        }
        self.local().with(|queue, now| {
            let next = next_turn(queue, activity, budget, takers, now)?;
            offer(queue, message, now);
            Some(next)
        })
    }

    /// Forgets messages whose callers could not store them: a turn with one could not be committed.
    pub(crate) fn withdraw(&self, instance_id: &str) {
        self.correct(instance_id, |known| {
            known.give_up_unstored(Message::has_failed);
        });
    }

    /// Hands the start of an instance over to its first turn; `None` if it must be stored.
    pub(crate) fn hand_over_start(&self, message: Message, budget: &Budget) -> Option<NextTurn> {
        let key = message.stored.document.instance_id.clone();
        self.local().with(|queue, now| {
            let orchestration = message.orchestration()?;
            let first = NextTurn {
                within: budget.of(orchestration, now)?,
                orchestration: orchestration.to_owned(),
            };
            let is_new = queue.known(&key).is_none() && !queue.has_rules();
            let is_taken = (budget.is_always() && is_new) || queue.takes_at_once(&key);
            if !is_taken {
                return None;
            }
            offer(queue, message, now);
            Some(first)
        })
    }
}

fn next_turn(
    queue: &Queue<Instances>,
    activity: &WorkerItem,
    budget: &Budget,
    takers: Takers,
    now: Instant,
) -> Option<NextTurn> {
    let known = queue.known(&activity.instance_id)?;
    if known.has_cancelled(activity) {
        return None;
    }
    let orchestration = known.takes_completions()?;
    let next = NextTurn {
        within: budget.of(orchestration, now)?,
        orchestration: orchestration.to_owned(),
    };
    let is_soon = takers == Takers::Any || budget.is_instant(orchestration);
    let is_taken = budget.is_always() || is_soon && queue.takes_soon(&activity.instance_id, takers);
    is_taken.then_some(next)
}

fn offer(queue: &mut Queue<Instances>, message: Message, now: Instant) {
    let key = message.stored.document.instance_id.clone();
    queue.learn(&key, now, |known| known.note(message, now, Some(now)));
}
