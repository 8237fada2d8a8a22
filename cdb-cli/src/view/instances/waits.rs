//! What a running instance waits for, in words.

use std::fmt;

use cdb_provider::observe::{Awaited, SpanKind, Wait};
#[cfg(feature = "dashboard")]
use cdb_provider::observe::{ObserveError, ObservedInstance};

#[cfg(feature = "dashboard")]
use crate::container::Orchestrations;
#[cfg(feature = "dashboard")]
use crate::exit::Failure;
use crate::output::short;

/// Reads what an instance waits for. Returns `None` for a history that is damaged or cannot be decoded: the commands
/// that show the instance say why.
///
/// # Errors
/// When the service does not answer.
#[cfg(feature = "dashboard")]
pub(crate) async fn read_if_intact(
    orchestrations: &Orchestrations,
    instance: &ObservedInstance,
) -> Result<Option<Waits>, Failure> {
    match orchestrations.provider.observe().waits(instance).await {
        Err(ObserveError::Stored(error)) if !error.is_retryable() => Ok(None),
        awaited => Ok(Some(Waits(awaited?))),
    }
}

/// What an instance waits for.
pub(crate) struct Waits(pub Awaited);

impl Waits {
    /// Returns whether the instance waits for an event of this name, queued or not.
    pub(crate) fn awaits(&self, event: &str, is_queue: bool) -> bool {
        self.0.awaits(event, is_queue)
    }

    /// Returns the events that the instance waits for, in words.
    pub(crate) fn described(&self) -> String {
        let events = self.0.events().map(|wait| {
            let kind = if wait.is_queue { "the queue " } else { "" };
            format!("{kind}{}", short(&wait.name, 80))
        });
        let events: Vec<_> = events.collect();
        if events.is_empty() {
            return "it waits for no event".to_owned();
        }
        format!("it waits for {}", events.join(", "))
    }
}

/// Returns whether two waits are for activities of the same name.
pub(super) fn are_alike(one: &Wait, other: &Wait) -> bool {
    let is_activity = one.kind == SpanKind::Activity && other.kind == SpanKind::Activity;
    is_activity && one.name == other.name
}

/// Shows a wait.
pub(super) struct Shown<'a>(pub(super) &'a Wait);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = self.0;
        let name = short(&of.name, 80);
        match (of.kind, of.due_at, &of.instance) {
            (_, Some(due_at), _) => write!(f, "timer, fires at {due_at}")?,
            (_, _, Some(child)) => {
                write!(
                    f,
                    "sub-orchestration {name}, instance {}",
                    short(child, 120)
                )?;
            }
            (SpanKind::Activity, ..) => write!(f, "activity {name}")?,
            _ if of.is_queue => write!(f, "queue {name}")?,
            _ => write!(f, "event {name}")?,
        }
        write!(f, ", since {}", of.since)
    }
}
