//! Replays recorded executions through the orchestrations of another build, before it is deployed.
//!
//! duroxide replays the history of an instance at every turn that finds no cached state. If the code
//! has changed in between and no longer makes the recorded decisions, the instance is held
//! (nondeterminism), or fails with [`OnNondeterminism::Fail`](crate::OnNondeterminism). [`Replay`] finds such instances beforehand: it runs duroxide's own
//! [`ReplayEngine`](duroxide::runtime::replay_engine::ReplayEngine) on the recorded events and
//! compares each decision. It starts no activity, sends no message and writes nothing.
//!
//! ```
//! use cdb_provider::replay::{Recording, Replay};
//! use duroxide::{Event, EventKind, OrchestrationContext, OrchestrationRegistry};
//!
//! // What production has recorded: the orchestration has started and charged a card.
//! let recorded = |id, kind| Event::with_event_id(id, "order-7", 1, None, kind);
//! let events = vec![
//!     recorded(1, EventKind::OrchestrationStarted {
//!         name: "Order".into(), version: "1.0.0".into(), input: "990".into(),
//!         parent_instance: None, parent_id: None, parent_execution_id: None,
//!         carry_forward_events: None, initial_custom_status: None,
//!     }),
//!     recorded(2, EventKind::ActivityScheduled {
//!         name: "Charge".into(), input: "990".into(), session_id: None, tag: None,
//!     }),
//! ];
//! let recording = Recording::new("order-7", 1, events);
//!
//! // What the next build would do.
//! let code = OrchestrationRegistry::builder()
//!     .register("Order", |ctx: OrchestrationContext, cents: String| async move {
//!         ctx.schedule_activity("Reserve", cents.clone()).await?;
//!         ctx.schedule_activity("Charge", cents).await
//!     })
//!     .build();
//! let difference = Replay::new(code).check(&recording).unwrap_err();
//! assert_eq!(
//!     difference.to_string(),
//!     "instance `order-7`, execution 1, event 2: recorded is activity `Charge` with input `990`, \
//!      the code decides activity `Reserve` with input `990`"
//! );
//! ```

mod compare;
mod decision;
mod difference;
mod export;
mod recording;
mod run;

use duroxide::{EventKind, OrchestrationRegistry};

use decision::decisions;
pub use difference::{DifferenceKind, ReplayDifference};
pub use export::Export;
pub use recording::Recording;
pub(crate) use recording::read;
use run::{Execution, Outcome};

/// Replays recordings through the orchestrations of this build.
#[derive(Clone)]
pub struct Replay {
    orchestrations: OrchestrationRegistry,
}

impl Replay {
    /// Replays through the registered orchestrations.
    pub fn new(orchestrations: OrchestrationRegistry) -> Self {
        Self { orchestrations }
    }

    /// Replays a recording. Runs the code of the orchestration, but none of its activities.
    ///
    /// # Errors
    /// The first difference between the recorded decisions and those of the code.
    pub fn check(&self, recording: &Recording) -> Result<(), ReplayDifference> {
        let end = recording
            .events
            .iter()
            .position(|event| is_end(&event.kind));
        let (events, end) = match end {
            Some(at) => (&recording.events[..at], Some(&recording.events[at])),
            None => (&recording.events[..], None),
        };
        let execution = Execution::of(&self.orchestrations, recording, events)?;
        let whole = execution.run(events.len());
        if let Outcome::Waits = whole.outcome {
            return recording.waits(&whole.decided, end);
        }
        // The code ends, or differs, at the first event after which it does not wait.
        let lengths: Vec<usize> = (1..=events.len()).collect();
        let waiting = lengths
            .partition_point(|&length| matches!(execution.run(length).outcome, Outcome::Waits));
        let length = (waiting + 1).min(events.len());
        let run = execution.run(length);
        let last = &events[length - 1];
        match run.outcome {
            // Only the whole history differs, as duroxide's check of cancelled futures can.
            Outcome::Waits => recording.waits(&run.decided, end),
            Outcome::Differs(text) => {
                let before = match length {
                    1 => Vec::new(),
                    _ => decisions(&execution.run(length - 1).decided),
                };
                Err(recording.differs(last, before.first(), &text))
            }
            Outcome::Ends(result) => {
                recording.same_decisions(&events[length..], &run.decided, &result)?;
                recording.same_end(&result, end, last)
            }
        }
    }
}

impl std::fmt::Debug for Replay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = self.orchestrations.list_names();
        f.debug_struct("Replay").field("names", &names).finish()
    }
}

/// Whether an execution has ended with this event.
fn is_end(kind: &EventKind) -> bool {
    matches!(
        kind,
        EventKind::OrchestrationCompleted { .. }
            | EventKind::OrchestrationFailed { .. }
            | EventKind::OrchestrationContinuedAsNew { .. }
    )
}
