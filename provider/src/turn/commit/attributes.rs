//! The search attributes that a commit writes into the instance document.

use duroxide::{Event, EventKind};

use crate::queue::instances::{Turn, TurnResult};
use crate::stored::attributes::{Attributes, KEY, valid};
use crate::stored::kv::value_after;
use crate::stored::payload::Payloads;

/// Returns the attributes that a commit writes into the instance document: those of the key-value
/// store after the events of the turn. Leaves invalid ones out, which only a program without
/// [`SearchAttributes`](trait@crate::SearchAttributes) writes, and logs them when this turn has set them.
pub(crate) fn at_commit(payloads: &Payloads, turn: &Turn, result: &TurnResult) -> Attributes {
    let (before, events) = (&turn.instance.document, &result.history_delta);
    if turn.history.is_err() {
        // The key-value store of a damaged instance may not be loaded.
        return before.attributes.clone();
    }
    let text = value_after(KEY, events, || match result.restored.get(KEY) {
        // A rewind restores the value from before its events.
        Some(restored) => Some(&*restored.as_ref()?.value),
        None => turn.kv.visible_value(KEY),
    });
    let Some(mut text) = text.map(str::to_owned) else {
        return Attributes::new();
    };
    // A tool without the key must not take the stored form for invalid attributes.
    if let Err(error) = payloads.strict().decode(&mut text) {
        tracing::warn!(instance = before.instance_id, %error, "cannot decode the search attributes");
        return before.attributes.clone();
    }
    let (attributes, refused) = valid(&text);
    if events.iter().any(sets_attributes) {
        for error in refused {
            tracing::warn!(instance = before.instance_id, %error, "a search attribute is left out");
        }
    }
    attributes
}

fn sets_attributes(event: &Event) -> bool {
    matches!(&event.kind, EventKind::KeyValueSet { key, .. } if key == KEY)
}
