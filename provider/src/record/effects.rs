//! What happens outside of duroxide: messages, streams, leases and lists in documents.

use serde::Serialize;

use super::file::{Outcome, Recorder};

/// An effect that has begun. Dropping it records that its outcome is not known.
#[derive(Debug)]
#[must_use = "end it with its outcome"]
pub struct RecordedEffect {
    recorder: Recorder,
    call: u64,
    ended: bool,
}

/// A use of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseUse {
    /// The lease is taken; the token is known at the end ([`RecordedEffect::acquired`]).
    Acquire,
    /// A write under the lease with this fencing token.
    Write(u64),
    /// A release of the lease with this fencing token.
    Release(u64),
}

/// An operation of a transaction on documents that each hold a list. No value is appended twice to
/// one document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ListUse<'a> {
    /// Appends a value to a document.
    Append(&'a str, &'a str),
    /// Reads the latest list of a document ([`RecordedEffect::read`]).
    Read(&'a str),
}

#[derive(Serialize)]
struct Message<'a> {
    receiver: &'a str,
    id: &'a str,
}

#[derive(Serialize)]
struct Entry<'a> {
    stream: &'a str,
    number: u64,
}

#[derive(Serialize)]
struct Leased<'a> {
    document: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<u64>,
}

#[derive(Serialize)]
struct Token {
    token: u64,
}

impl Recorder {
    /// Begins the effect of a message on its receiver.
    pub fn message(&self, receiver: &str, id: &str) -> RecordedEffect {
        self.effect("message", &Message { receiver, id })
    }

    /// Begins the handling of an entry of a stream. Numbers have no gaps.
    pub fn entry(&self, stream: &str, number: u64) -> RecordedEffect {
        self.effect("entry", &Entry { stream, number })
    }

    /// Begins a use of a document's lease.
    pub fn lease(&self, document: &str, it: LeaseUse) -> RecordedEffect {
        let (op, token) = match it {
            LeaseUse::Acquire => ("lease-acquire", None),
            LeaseUse::Write(token) => ("lease-write", Some(token)),
            LeaseUse::Release(token) => ("lease-release", Some(token)),
        };
        self.effect(op, &Leased { document, token })
    }

    /// Begins a transaction on lists.
    pub fn transaction(&self, uses: &[ListUse<'_>]) -> RecordedEffect {
        self.effect("transaction", &uses)
    }

    fn effect(&self, op: &str, args: &impl Serialize) -> RecordedEffect {
        RecordedEffect {
            call: self.call(op, args),
            recorder: self.clone(),
            ended: false,
        }
    }
}

impl RecordedEffect {
    /// Ends the effect.
    pub fn end(self, outcome: Outcome) {
        self.with(outcome, None::<()>);
    }

    /// Ends the acquisition of a lease.
    pub fn acquired(self, token: u64) {
        self.with(Outcome::Ok, Some(Token { token }));
    }

    /// Ends a transaction that took effect, with the list of each `Read` in the same order.
    pub fn read(self, lists: &[Vec<String>]) {
        self.with(Outcome::Ok, Some(lists));
    }

    fn with(mut self, outcome: Outcome, result: Option<impl Serialize>) {
        self.ended = true;
        self.recorder.answer(self.call, outcome, result, None);
    }
}

impl Drop for RecordedEffect {
    fn drop(&mut self) {
        if !self.ended {
            let (recorder, call) = (&self.recorder, self.call);
            recorder.answer(call, Outcome::None, None::<()>, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{LeaseUse, Recorder};

    #[test]
    fn a_dropped_effect_has_no_outcome_and_a_file_is_never_written_by_two() {
        let file = std::env::temp_dir().join(format!("effects-{}.jsonl", std::process::id()));
        let recorder = Recorder::with_clock(&file, "a", "c").unwrap();
        drop(recorder.process("b").lease("order", LeaseUse::Write(7)));
        let again = Recorder::with_clock(&file, "a", "c");
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::remove_file(&file).unwrap();
        assert!(again.is_err());
        recorder.finish().unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4, "{text}");
        let call = r#""op":"lease-write","args":{"document":"order","token":7},"process":"b""#;
        assert!(lines[2].contains(call), "{text}");
        assert!(lines[3].contains(r#""call":0,"outcome":"none","#), "{text}");
    }
}
