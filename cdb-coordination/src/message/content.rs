//! The content of a message document, by kind.

use cdb_model::Timestamp;
use serde::{Deserialize, Serialize};

use super::envelope::{Envelope, MessageAddress};
use crate::retry::Tries;

/// The six kinds of content.
#[derive(Serialize, Deserialize, Clone, Debug)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub(crate) enum Content {
    Outgoing(Outgoing),
    Stream(Stream),
    Incoming(Incoming),
    Seen(Seen),
    Dead(Dead),
    Answer(Answer),
}

impl Content {
    /// The kind as it is written in the id.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Outgoing(_) => "out",
            Self::Stream(_) => "stream",
            Self::Incoming(_) => "in",
            Self::Seen(_) => "seen",
            Self::Dead(_) => "dead",
            Self::Answer(_) => "answer",
        }
    }
}

/// A committed message that is to be delivered, in the sender's partition.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub(crate) struct Outgoing {
    #[serde(rename = "letter")]
    pub(crate) envelope: Envelope,
    #[serde(default)]
    pub(crate) tries: Tries,
}

/// The numbering of the messages to one partition, in the sender's partition.
///
/// Every commit replaces this document under its ETag, so the numbers follow the order of the
/// commits.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub(crate) struct Stream {
    pub(crate) to: MessageAddress,
    /// A random name. A sender that has forgotten the stream starts one with a new name.
    pub(crate) name: String,
    /// The number of the next message.
    pub(crate) next: u64,
    /// The newest commits, oldest first. After a lost answer they tell whether a commit took place.
    pub(crate) commits: Vec<Commit>,
}

/// A commit that numbered messages.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub(crate) struct Commit {
    /// The number of the commit's first message in the stream.
    pub(crate) first: u64,
    pub(crate) token: String,
}

/// The most commits that a stream remembers. Only commits between a lost answer and the read after
/// it matter.
const COMMITS: usize = 8;

impl Stream {
    pub(crate) fn new(to: MessageAddress) -> Self {
        Self {
            to,
            name: uuid::Uuid::new_v4().simple().to_string(),
            next: 1,
            commits: Vec::new(),
        }
    }

    /// Notes that the commit `token` numbers messages from `next`.
    pub(crate) fn note(&mut self, token: &str) {
        self.commits.push(Commit {
            first: self.next,
            token: token.to_owned(),
        });
        let surplus = self.commits.len().saturating_sub(COMMITS);
        self.commits.drain(..surplus);
    }

    /// Returns whether the commit `token` took place, which was first tried when `next` was
    /// `first`. Returns `None` when too many later commits have displaced it.
    pub(crate) fn has_committed(&self, token: &str, first: u64) -> Option<bool> {
        if self.commits.iter().any(|commit| commit.token == token) {
            return Some(true);
        }
        let remembers = self.next == first
            || self
                .commits
                .first()
                .is_some_and(|oldest| oldest.first <= first);
        remembers.then_some(false)
    }
}

/// A message that has arrived, in the receiver's partition.
#[derive(Serialize, Deserialize, Clone, Debug)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Incoming {
    #[serde(rename = "letter")]
    pub(crate) envelope: Envelope,
    /// The process that may handle the message until it is due for other processes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) claimed_by: Option<String>,
    /// How often a process has started to handle the message. Counted before the handler runs, so
    /// that a message that kills its process becomes a dead letter in the end.
    pub(crate) started: u32,
    #[serde(default)]
    pub(crate) tries: Tries,
}

/// The progress of a stream, in the receiver's partition. Written in the batch of every receipt.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) stream: String,
    pub(crate) from: MessageAddress,
    /// All messages up to this number have had their effect or are dead letters.
    pub(crate) through: u64,
}

/// The half that dead-lettered a message.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub enum Side {
    /// The message could not be delivered. The dead letter is in the sender's partition.
    Outbox,
    /// The message was delivered and could not be received. The dead letter is in the receiver's
    /// partition.
    Inbox,
}

/// A dead letter, in the partition where the message failed. It stays until an operator redrives or
/// discards it.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub(crate) struct Dead {
    pub(crate) side: Side,
    #[serde(rename = "letter")]
    pub(crate) envelope: Envelope,
    pub(crate) reason: String,
    #[serde(default)]
    pub(crate) tries: Tries,
    /// Whether the payload is a whole document that could not be read.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) unreadable: bool,
}

/// The answer to a request from outside, in the partition that the request has changed.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) request: String,
    /// JSON as text, because the service stores numbers as doubles.
    pub(crate) result: String,
}

impl Dead {
    pub(crate) fn slot(&self) -> String {
        let side = match self.side {
            Side::Outbox => "out",
            Side::Inbox => "in",
        };
        format!("{side}-{}", self.envelope.id())
    }
}

impl Outgoing {
    /// How many attempts to deliver the message failed.
    pub(crate) fn failed_attempts(&self) -> u32 {
        self.tries.failed
    }
}

impl Incoming {
    /// How many attempts to receive the message failed, with those whose process ended before the
    /// handler returned.
    pub(crate) fn failed_attempts(&self) -> u32 {
        self.tries.failed.saturating_add(self.unfinished())
    }

    /// How many earlier starts of the handler have no result: their processes ended, perhaps because
    /// of the message.
    pub(crate) fn unfinished(&self) -> u32 {
        let earlier = self.started.saturating_sub(1);
        earlier.saturating_sub(self.tries.counted)
    }

    /// Returns `true` if the process `me` may handle the message before it is due for other
    /// processes.
    pub(crate) fn is_claimed_by(&self, me: &str, due: Timestamp, now: Timestamp) -> bool {
        due > now && self.claimed_by.as_deref() == Some(me)
    }

    /// Returns `true` if the message waits only because it arrived early: no process has claimed
    /// it, and no attempt has failed. When its turn comes, a process may handle it at once.
    pub(crate) fn is_held_back(&self) -> bool {
        self.claimed_by.is_none() && self.tries.failed == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream() -> Stream {
        Stream::new(MessageAddress {
            container: "c".to_owned(),
            partition: "p".into(),
        })
    }

    fn commit(stream: &mut Stream, token: &str) {
        stream.note(token);
        stream.next += 1;
    }

    #[test]
    fn a_commit_is_found_among_later_commits() {
        let mut stream = stream();
        assert_eq!(stream.has_committed("mine", 1), Some(false));
        commit(&mut stream, "mine");
        commit(&mut stream, "other");
        assert_eq!(stream.has_committed("mine", 1), Some(true));
        assert_eq!(stream.has_committed("lost", 2), Some(false));
    }

    #[test]
    fn a_displaced_commit_is_unknown_and_not_denied() {
        let mut stream = stream();
        commit(&mut stream, "mine");
        for number in 0..COMMITS {
            commit(&mut stream, &number.to_string());
        }
        assert_eq!(stream.has_committed("mine", 1), None);
        assert_eq!(stream.has_committed("lost", 2), Some(false));
        assert_eq!(stream.commits.len(), COMMITS);
    }
}
