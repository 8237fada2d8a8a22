//! Queued events that an execution has not taken, which the next one receives first. duroxide 0.1.32
//! carries 100 of them and drops the rest (`runtime/limits.rs`, `MAX_CARRY_FORWARD_EVENTS`). Their
//! messages were accepted, so the commit carries the rest too.

use std::collections::HashMap;

use duroxide::providers::WorkItem;
use duroxide::{Event, EventKind};

use crate::error::Result;
use crate::queue::instances::{MAX_CARRIED, Turn, TurnResult};
use crate::stored::payload::Payloads;

/// A queued event: its name and its data.
type Arrival = (String, String);

/// Adds the events that duroxide has dropped to the start of the next execution.
///
/// # Errors
/// Fails when a payload of the history cannot be decoded.
pub(super) fn restore(payloads: &Payloads, turn: &Turn, result: &mut TurnResult) -> Result<()> {
    let is_new_execution = result.execution_id > turn.instance.document.current_execution_id;
    let carried = result.orchestrator_items.iter_mut().find_map(carried_of);
    let Some(carried) = carried.filter(|carried| carried.len() >= MAX_CARRIED) else {
        return Ok(());
    };
    let history = turn.events().filter(|_| !is_new_execution);
    let before = history.iter().flat_map(|events| events.iter());
    let before: Vec<Event> = before.filter(|event| is_of_queue(event)).cloned().collect();
    let before = payloads.decode_history(before)?;
    let dropped = dropped(before.iter().chain(&result.history_delta), carried);
    carried.extend(dropped);
    Ok(())
}

fn carried_of(item: &mut WorkItem) -> Option<&mut Vec<Arrival>> {
    match item {
        WorkItem::ContinueAsNew {
            carry_forward_events,
            ..
        } => Some(carry_forward_events),
        _ => None,
    }
}

fn is_of_queue(event: &Event) -> bool {
    matches!(
        event.kind,
        EventKind::QueueEventDelivered { .. }
            | EventKind::QueueSubscribed { .. }
            | EventKind::QueueSubscriptionCancelled { .. }
    )
}

/// Returns the arrivals behind those that are carried. Each name is a queue: its arrivals are taken
/// in their order, so those behind a carried one are not taken.
fn dropped<'a>(events: impl Iterator<Item = &'a Event>, carried: &[Arrival]) -> Vec<Arrival> {
    let (mut arrivals, mut taken) = (Vec::new(), HashMap::<&str, i64>::new());
    let mut names = HashMap::new();
    for event in events {
        match &event.kind {
            EventKind::QueueEventDelivered { name, data } => arrivals.push((&**name, &**data)),
            EventKind::QueueSubscribed { name } => {
                names.insert(event.event_id(), &**name);
                *taken.entry(name).or_default() += 1;
            }
            EventKind::QueueSubscriptionCancelled { .. } => {
                let name = event.source_event_id.and_then(|id| names.get(&id));
                if let Some(taken) = name.and_then(|name| taken.get_mut(name)) {
                    *taken -= 1;
                }
            }
            _ => {}
        }
    }
    // The number of arrivals of each name that are taken or carried.
    let mut passed = HashMap::new();
    for (name, _) in &arrivals {
        passed.entry(*name).or_insert_with(|| {
            let all = arrivals.iter().filter(|(of, _)| of == name);
            let all: Vec<&str> = all.map(|(_, data)| *data).collect();
            let carried = carried.iter().filter(|(of, _)| of == name);
            let carried: Vec<&str> = carried.map(|(_, data)| &**data).collect();
            let taken = taken.get(name).copied().unwrap_or_default();
            let taken = usize::try_from(taken).unwrap_or_default().min(all.len());
            // A race in the orchestration may have left a subscription that took nothing.
            let mut starts = std::iter::once(taken).chain((0..=all.len()).rev());
            let first = starts.find(|at| all[*at..].starts_with(&carried));
            first.unwrap_or(all.len()) + carried.len()
        });
    }
    let mut left = Vec::new();
    for (name, data) in arrivals {
        match passed.get_mut(name) {
            Some(passed) if *passed > 0 => *passed -= 1,
            _ => left.push((name.to_owned(), data.to_owned())),
        }
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(id: u64, source: Option<u64>, kind: EventKind) -> Event {
        Event::with_event_id(id, "i", 1, source, kind)
    }

    fn arrival(id: u64, name: &str, data: &str) -> Event {
        let (name, data) = (name.to_owned(), data.to_owned());
        event(id, None, EventKind::QueueEventDelivered { name, data })
    }

    fn subscribed(id: u64, name: &str) -> Event {
        let name = name.to_owned();
        event(id, None, EventKind::QueueSubscribed { name })
    }

    fn pairs(all: &[(&str, &str)]) -> Vec<Arrival> {
        let all = all.iter();
        all.map(|(name, data)| ((*name).to_owned(), (*data).to_owned()))
            .collect()
    }

    #[test]
    fn arrivals_behind_the_carried_ones_are_kept_in_their_order() {
        let cancelled = EventKind::QueueSubscriptionCancelled {
            reason: String::new(),
        };
        let events = [
            subscribed(2, "a"),
            subscribed(3, "b"),
            event(4, Some(3), cancelled),
            arrival(5, "a", "1"),
            arrival(6, "b", "1"),
            arrival(7, "a", "2"),
            arrival(8, "a", "3"),
            arrival(9, "b", "2"),
            arrival(10, "c", "1"),
        ];
        let of = |carried: &[(&str, &str)]| dropped(events.iter(), &pairs(carried));
        let carried = [("b", "1"), ("a", "2")];
        assert_eq!(of(&carried), pairs(&[("a", "3"), ("b", "2"), ("c", "1")]));
        let all = [("b", "1"), ("a", "2"), ("a", "3"), ("b", "2"), ("c", "1")];
        assert!(of(&all).is_empty());
    }

    #[test]
    fn a_subscription_that_took_nothing_hides_no_arrival() {
        let events = [
            subscribed(2, "a"),
            arrival(3, "a", "1"),
            arrival(4, "a", "2"),
            arrival(5, "a", "3"),
        ];
        let left = dropped(events.iter(), &pairs(&[("a", "1"), ("a", "2")]));
        assert_eq!(left, pairs(&[("a", "3")]));
    }
}
