//! What a message document holds, by kind.

use cdb_model::Timestamp;
use serde::{Deserialize, Serialize};

use super::envelope::{Address, Envelope};
use crate::outbox::Tries;

/// The five kinds.
#[derive(Serialize, Deserialize, Clone, Debug)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub(crate) enum Content {
    Outgoing(Outgoing),
    Stream(Stream),
    Incoming(Incoming),
    Seen(Seen),
    Dead(Dead),
}

impl Content {
    /// The word in the id.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Outgoing(_) => "out",
            Self::Stream(_) => "stream",
            Self::Incoming(_) => "in",
            Self::Seen(_) => "seen",
            Self::Dead(_) => "dead",
        }
    }
}

/// In the sender's partition: a message that was committed and is to be delivered.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub(crate) struct Outgoing {
    #[serde(rename = "letter")]
    pub(crate) envelope: Envelope,
    #[serde(default)]
    pub(crate) tries: Tries,
}

/// In the sender's partition: how far a stream of messages to one partition has been numbered.
///
/// Every send goes through its ETag, so the numbers are the order in which the sender committed.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub(crate) struct Stream {
    pub(crate) to: Address,
    /// Random, and new when the stream was forgotten meanwhile.
    pub(crate) name: String,
    /// The number of the next message.
    pub(crate) next: u64,
    /// The newest commits, oldest first, so that one can tell after a lost answer whether it took place.
    pub(crate) commits: Vec<Commit>,
}

/// A commit that numbered messages.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub(crate) struct Commit {
    /// The number of its first message in the stream.
    pub(crate) first: u64,
    pub(crate) token: String,
}

/// Most commits that a stream remembers: only those count that came between a lost answer and the question about it.
const COMMITS: usize = 8;

impl Stream {
    pub(crate) fn new(to: Address) -> Self {
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

    /// Whether the commit `token`, which was tried when `next` was `first`, took place; `None` when too many others
    /// have come since to tell.
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

/// In the receiver's partition: a message that has arrived.
#[derive(Serialize, Deserialize, Clone, Debug)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Incoming {
    #[serde(rename = "letter")]
    pub(crate) envelope: Envelope,
    /// The process that may work on it until it is due for others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) claimed_by: Option<String>,
    /// How often a process took it up. Counted beforehand: a message that kills its process must not do so for ever.
    pub(crate) started: u32,
    #[serde(default)]
    pub(crate) tries: Tries,
}

/// In the receiver's partition: how far a stream has been received. Written in the batch of every effect.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) stream: String,
    pub(crate) from: Address,
    /// Everything up to this number has had its effect, or was given up.
    pub(crate) through: u64,
}

/// Which half gave a message up.
///
/// ```
/// use cdb_coordination::Side;
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/dead_letter.rs")); }
/// # use shop::given_up;
/// # shop::with_shop(async |shop| {
///
/// # let envelope = given_up(shop).await?;
/// // `letter` is one of `DeadLetters::list`. Whom to ask?
/// let keeper = match envelope.side {
///     Side::Outbox => &envelope.from,
///     Side::Inbox => &envelope.to,
/// };
/// assert_eq!(keeper.partition, "warehouse".into());
/// # Ok(()) }).unwrap();
/// ```
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub enum Side {
    /// It could not be delivered; the dead letter is in its sender's partition.
    Outbox,
    /// It was delivered and could not be received; the dead letter is in its receiver's partition.
    Inbox,
}

/// A message that was given up, in the partition where that happened. Stays until somebody decides.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub(crate) struct Dead {
    pub(crate) side: Side,
    #[serde(rename = "letter")]
    pub(crate) envelope: Envelope,
    pub(crate) reason: String,
    #[serde(default)]
    pub(crate) tries: Tries,
    /// The payload is a whole document that could not be read.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) unreadable: bool,
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

impl Incoming {
    /// Whether the process `me` may work on it, although it is not due for others.
    pub(crate) fn is_claimed_by(&self, me: &str, due: Timestamp, now: Timestamp) -> bool {
        due > now && self.claimed_by.as_deref() == Some(me)
    }

    /// Whether it is due later only because it was early: nobody has it, and it has not failed. Once it is its turn,
    /// whoever finds it need not wait.
    pub(crate) fn is_held_back(&self) -> bool {
        self.claimed_by.is_none() && self.tries.failed == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream() -> Stream {
        Stream::new(Address {
            container: "c".to_owned(),
            partition: "p".into(),
        })
    }

    fn commit(stream: &mut Stream, token: &str) {
        stream.note(token);
        stream.next += 1;
    }

    #[test]
    fn a_commit_is_found_among_those_that_came_after_it() {
        let mut stream = stream();
        assert_eq!(stream.has_committed("mine", 1), Some(false));
        commit(&mut stream, "mine");
        commit(&mut stream, "other");
        assert_eq!(stream.has_committed("mine", 1), Some(true));
        assert_eq!(stream.has_committed("lost", 2), Some(false));
    }

    #[test]
    fn what_is_no_longer_remembered_is_not_denied() {
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
