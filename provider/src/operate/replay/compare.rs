//! Compares what the code does with what is recorded.

use duroxide::{Event, EventKind};

use super::decision::{self, decisions, describe};
use super::difference::{self, DifferenceKind, ReplayDifference};
use super::recording::Recording;

impl Recording {
    /// The code waits after all events.
    pub(super) fn waits(
        &self,
        decided: &[Event],
        end: Option<&Event>,
    ) -> Result<(), ReplayDifference> {
        if let Some(decision) = decisions(decided).first() {
            let text = format!("nothing more is recorded, the code decides {decision}");
            return Err(self.difference(
                DifferenceKind::Decision,
                end.or(self.events.last()),
                text,
            ));
        }
        match end {
            Some(end) if difference::is_of_code(&end.kind) => {
                let text = format!("recorded is {}, the code waits", describe(&end.kind));
                Err(self.difference(DifferenceKind::End, Some(end), text))
            }
            _ => Ok(()),
        }
    }

    /// The code makes another decision than the recorded one, or none.
    pub(super) fn differs(
        &self,
        recorded: &Event,
        decided: Option<&String>,
        text: &str,
    ) -> ReplayDifference {
        let is_decision = decision::of(&recorded.kind).is_some();
        let what = describe(&recorded.kind);
        let text = match decided {
            Some(decided) if is_decision => {
                format!("recorded is {what}, the code decides {decided}")
            }
            None if is_decision => format!("recorded is {what}, the code waits"),
            _ => format!("recorded is {what}: {text}"),
        };
        self.difference(DifferenceKind::Decision, Some(recorded), text)
    }

    /// The code ends. Its last decisions are those that are recorded after the event it ended at.
    pub(super) fn same_decisions(
        &self,
        rest: &[Event],
        decided: &[Event],
        result: &EventKind,
    ) -> Result<(), ReplayDifference> {
        let mut decided = decisions(decided).into_iter();
        for event in rest {
            let Some(recorded) = decision::of(&event.kind) else {
                continue;
            };
            match decided.next() {
                Some(decision) if decision == recorded => {}
                decision => {
                    let decision = match decision {
                        Some(decision) => format!("the code decides {decision}"),
                        None => format!("the code ends with {}", describe(result)),
                    };
                    let text = format!("recorded is {recorded}, {decision}");
                    return Err(self.difference(DifferenceKind::Decision, Some(event), text));
                }
            }
        }
        match decided.next() {
            None => Ok(()),
            Some(decision) => {
                let text = format!("the end is recorded, the code decides {decision} before it");
                Err(self.difference(DifferenceKind::Decision, rest.last(), text))
            }
        }
    }

    /// The code ends after the event `last`, with this result.
    pub(super) fn same_end(
        &self,
        result: &EventKind,
        end: Option<&Event>,
        last: &Event,
    ) -> Result<(), ReplayDifference> {
        let what = describe(result);
        let Some(end) = end else {
            let text = format!("the recorded execution goes on, the code ends with {what}");
            return Err(self.difference(DifferenceKind::End, Some(last), text));
        };
        if difference::same_end(&end.kind, result) {
            return Ok(());
        }
        let recorded = describe(&end.kind);
        let text = format!("recorded is {recorded}, the code ends with {what}");
        Err(self.difference(DifferenceKind::End, Some(end), text))
    }
}
