//! Turns messages that cannot be read into dead letters, so that they do not block other messages.
//!
//! The dead letter contains the whole document, and the fields that can be read. If the id names a
//! number in a stream, the number is left to be delivered or received, so that later messages of
//! the stream can be received.

use cdb_model::container::MemberOf;
use cdb_model::operation::BatchError;
use cdb_model::stored::{Location, Unreadable, decode};
use cdb_model::{Batch, Container, Document as _, DocumentKey as _, Patch, Timestamp};
use serde::{Deserialize, Serialize};

use crate::endpoint::Inner;
use crate::message::{
    Content, Dead, Envelope, MessageAddress, MessageContext, MessageDocument, MessageId, Outgoing,
    Side, fingerprint,
};
use crate::outbox::{OutboxError, arriving};
use crate::retry::{Tries, shortened};
use crate::search::in_parallel;
use crate::telemetry;
use crate::timing::TOO_LARGE;

/// The type of a message whose type cannot be read.
const UNKNOWN: &str = "unreadable";

/// Where a document has its message, whatever its kind.
const ENVELOPE: &str = "/mail/letter";

impl<C: Container> Inner<C>
where
    MessageDocument<C>: MemberOf<C>,
{
    /// Turns unreadable documents that a search for `side` has found into dead letters.
    pub(crate) async fn dead_letter_unreadable(&self, side: Side, unreadable: &[Unreadable]) {
        let moves = unreadable
            .iter()
            .map(|unreadable| self.move_unreadable(side, unreadable));
        in_parallel(moves.collect()).await;
    }

    async fn move_unreadable(&self, side: Side, unreadable: &Unreadable) {
        tracing::error!(%unreadable, "a message cannot be read; it becomes a dead letter");
        let Some(location) = &unreadable.location else {
            return;
        };
        let batch = self
            .dead_letter_of(side, location, unreadable)
            .or_else(|error| {
                tracing::error!(%error, "an unreadable message cannot become a dead letter");
                self.postpone_unreadable(side, location)
            });
        let Ok(batch) = batch else { return };
        match self.container.execute(&batch).await {
            Ok(_) => match side {
                Side::Outbox => telemetry::outbox_dead_letter(),
                Side::Inbox => telemetry::inbox_dead_letter(),
            },
            // The next search finds the document again, unless another process has repaired or
            // moved it.
            Err(error) => {
                tracing::debug!(%error, "an unreadable message was not moved; the next search finds it again");
            }
        }
    }

    /// Returns the batch that turns the document into a dead letter.
    fn dead_letter_of(
        &self,
        side: Side,
        location: &Location,
        unreadable: &Unreadable,
    ) -> Result<Batch<C>, BatchError> {
        let now = self.container.now();
        let partial = Partial::of(unreadable, self.here(location));
        let dead = partial.dead(side, location, now);
        let mut batch = Batch::<C>::new(&location.partition_key);
        batch
            .add(MessageDocument::<C>::dead(location.partition_key.clone(), dead, now).create())?;
        match partial.number_alone(side, location, now) {
            Some(number) => batch.add(number.replace().if_match(&location.etag))?,
            None => batch.add(location.address::<MessageDocument<C>>().delete())?,
        };
        Ok(batch)
    }

    /// Returns the batch that postpones the document.
    fn postpone_unreadable(&self, side: Side, location: &Location) -> Result<Batch<C>, BatchError> {
        let due = match side {
            Side::Outbox => MessageDocument::<C>::SEND_DUE,
            Side::Inbox => MessageDocument::<C>::RECEIVE_DUE,
        };
        let later =
            Patch::<MessageDocument<C>>::new().set(due, Some(self.container.now() + TOO_LARGE));
        let mut batch = Batch::<C>::new(&location.partition_key);
        batch.add(later.at(location.address()))?;
        Ok(batch)
    }

    fn here(&self, location: &Location) -> MessageAddress {
        MessageAddress {
            container: self.container.name().to_owned(),
            partition: location.partition_key.clone(),
        }
    }
}

/// The readable parts of an unreadable message.
pub(super) struct Partial<'a> {
    unreadable: &'a Unreadable,
    /// The stream and number, if the id is that of a message.
    id: Option<MessageId>,
    here: MessageAddress,
}

/// Both partitions of a message, as far as they can be read.
#[derive(Default, Serialize, Deserialize)]
struct Addresses {
    from: Option<MessageAddress>,
    to: Option<MessageAddress>,
}

impl<'a> Partial<'a> {
    pub(super) fn of(unreadable: &'a Unreadable, here: MessageAddress) -> Self {
        let id = unreadable.location.as_ref().map(|at| at.id.as_str());
        let slot = id.and_then(|id| id.split_once(":mail:"));
        let id = slot.and_then(|(_, slot)| {
            let (stream, number) = slot.rsplit_once('-')?;
            Some(MessageId {
                stream: stream.to_owned(),
                number: number.parse().ok().filter(|number| *number > 0)?,
            })
        });
        Self {
            unreadable,
            id,
            here,
        }
    }

    /// Returns the dead letter of a message that became one now, unless the document tells more.
    /// The id of its envelope is derived from this version of the document, so it is unique.
    pub(super) fn dead(&self, side: Side, location: &Location, now: Timestamp) -> Dead {
        let envelope = Envelope {
            sent_at: now,
            ..Envelope::unknown(self.here.clone(), self.here.clone())
        };
        let envelope = Envelope {
            stream: fingerprint(&[location.id.as_str(), location.etag.as_str()]),
            number: 0,
            payload: Some(self.unreadable.json.clone()),
            ..self.unreadable.fields_at(ENVELOPE, envelope)
        };
        Dead {
            side,
            envelope,
            reason: shortened(&self.unreadable.to_string()),
            tries: Tries::default(),
            unreadable: true,
        }
    }

    /// Returns the number alone as a replacement for the document, or `None` when the id or the
    /// receiver is unknown.
    fn number_alone<C: Container>(
        &self,
        side: Side,
        location: &Location,
        now: Timestamp,
    ) -> Option<MessageDocument<C>> {
        let id = self.id.clone()?;
        let read: Addresses = self.unreadable.fields_at(ENVELOPE, Addresses::default());
        let here = self.here.clone();
        let (from, to) = match side {
            Side::Inbox => (read.from.unwrap_or_else(|| here.clone()), here),
            // Without a known receiver, that receiver waits until the gap closes.
            Side::Outbox => (here, read.to?),
        };
        let envelope = Envelope {
            stream: id.stream,
            number: id.number,
            sent_at: now,
            ..Envelope::unknown(from, to)
        };
        let document = match side {
            Side::Inbox => MessageDocument::incoming(arriving(envelope), now),
            Side::Outbox => {
                let tries = Tries::default();
                MessageDocument::outgoing(Outgoing { envelope, tries }, now)
            }
        };
        let is_same_id = document.key().to_id().ok()? == location.id;
        is_same_id.then_some(document)
    }
}

impl Envelope {
    /// A message with known addresses and unknown content.
    fn unknown(from: MessageAddress, to: MessageAddress) -> Self {
        Self {
            stream: String::new(),
            number: 0,
            from,
            to,
            message_type: UNKNOWN.to_owned(),
            payload: None,
            sent_at: Timestamp::default(),
            context: MessageContext::default(),
        }
    }
}

/// Returns the message of a document that was unreadable when it became a dead letter. A newer
/// program may be able to read it.
pub(super) fn read_again<C: Container>(dead: &Dead) -> Result<Envelope, OutboxError>
where
    MessageDocument<C>: MemberOf<C>,
{
    let unreadable = |reason: &dyn std::fmt::Display| OutboxError::Unreadable {
        reason: reason.to_string(),
    };
    let json = dead.envelope.payload.as_deref().unwrap_or_default();
    let stored = decode::<C, MessageDocument<C>>(json)
        .map_err(|reason| unreadable(&Unreadable::new::<C>(json, reason)))?;
    match stored.document.content() {
        Content::Outgoing(Outgoing { envelope, .. }) if envelope.payload.is_some() => {
            Ok(envelope.clone())
        }
        Content::Incoming(incoming) if incoming.envelope.payload.is_some() => {
            Ok(incoming.envelope.clone())
        }
        _ => Err(unreadable(&"it contains no message")),
    }
}
