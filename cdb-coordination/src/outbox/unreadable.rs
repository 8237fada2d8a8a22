//! Messages that cannot be read: reported, and kept as a dead letter with the reason, where it stands in nobody's way.
//!
//! The dead letter holds the whole document as it was found, beside what can still be told of the message. If its id names
//! its place in a stream, that stays behind, as it does of a message that was given up, so that later ones can pass.

use std::time::Duration;

use cdb_model::{
    Batch, BatchError, Container, Document as _, DocumentKey as _, Location, MemberOf, Patch,
    Timestamp, Unreadable, decode,
};
use serde::Deserialize;
use serde_json::Value;

use super::error::OutboxError;
use super::retry::{Tries, shortened};
use super::route::arriving;
use crate::message::{
    Address, Content, Dead, Envelope, MessageDocument, MessageId, Outgoing, Side, fingerprint,
};
use crate::messaging::Inner;
use crate::telemetry;

/// The type of a message whose type cannot be read.
const UNKNOWN: &str = "unreadable";

/// How long one that is too large to be kept twice is left alone.
const LEFT_ALONE: Duration = Duration::from_secs(24 * 3600);

impl<C: Container> Inner<C>
where
    MessageDocument<C>: MemberOf<C>,
{
    /// Makes dead letters of documents that a search for `side` has found and that cannot be read.
    pub(crate) async fn dead_letter_unreadable(&self, side: Side, unreadable: &[Unreadable]) {
        for unreadable in unreadable {
            tracing::error!(%unreadable, "a message cannot be read");
            let Some(location) = &unreadable.location else {
                continue;
            };
            let batch = self.kept(side, location, unreadable).or_else(|error| {
                tracing::error!(%error, "an unreadable message cannot become a dead letter");
                self.left_alone(side, location)
            });
            let Ok(batch) = batch else { continue };
            match self.container.execute(&batch).await {
                Ok(_) => match side {
                    Side::Outbox => telemetry::undeliverable(),
                    Side::Inbox => telemetry::unreceivable(),
                },
                // It is found again, unless somebody else was here or has mended it.
                Err(error) => tracing::debug!(%error, "an unreadable message was not put aside"),
            }
        }
    }

    /// The batch that makes it a dead letter.
    fn kept(
        &self,
        side: Side,
        location: &Location,
        unreadable: &Unreadable,
    ) -> Result<Batch<C>, BatchError> {
        let now = self.container.now();
        let remains = Remains::of(unreadable, self.here(location));
        let dead = Dead {
            side,
            envelope: remains.envelope(location, now),
            reason: shortened(&unreadable.to_string()),
            tries: Tries::default(),
            unreadable: true,
        };
        let mut batch = Batch::<C>::new(&location.partition_key);
        batch.create(&MessageDocument::<C>::dead(
            location.partition_key.clone(),
            dead,
            now,
        ))?;
        match remains.place(side, location, now) {
            Some(place) => batch.replace_if_match(&place, &location.etag)?,
            None => batch.delete_at(location)?,
        };
        Ok(batch)
    }

    /// The batch that has it looked at again much later.
    fn left_alone(&self, side: Side, location: &Location) -> Result<Batch<C>, BatchError> {
        let due = match side {
            Side::Outbox => MessageDocument::<C>::SEND_DUE,
            Side::Inbox => MessageDocument::<C>::RECEIVE_DUE,
        };
        let later = Patch::<MessageDocument<C>>::new().set(due, self.container.now() + LEFT_ALONE);
        let mut batch = Batch::<C>::new(&location.partition_key);
        batch.patch_at(location, &later)?;
        Ok(batch)
    }

    fn here(&self, location: &Location) -> Address {
        Address {
            container: self.container.name().to_owned(),
            partition: location.partition_key.clone(),
        }
    }
}

/// What can still be told of a message that cannot be read.
struct Remains<'a> {
    json: &'a str,
    document: Value,
    /// Its place in its stream, if its id is that of a message.
    id: Option<MessageId>,
    here: Address,
}

impl<'a> Remains<'a> {
    fn of(unreadable: &'a Unreadable, here: Address) -> Self {
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
            json: &unreadable.json,
            document: serde_json::from_str(&unreadable.json).unwrap_or_default(),
            id,
            here,
        }
    }

    fn read<'v, T: Deserialize<'v>>(&'v self, pointer: &str) -> Option<T> {
        T::deserialize(self.document.pointer(pointer)?).ok()
    }

    /// The envelope of the dead letter. Its id is that of this version of the document, so that two do not meet.
    fn envelope(&self, location: &Location, now: Timestamp) -> Envelope {
        let address = |pointer| self.read(pointer).unwrap_or_else(|| self.here.clone());
        let message_type = self.read("/mail/letter/messageType");
        Envelope {
            stream: fingerprint(&[location.id.as_str(), location.etag.as_str()]),
            number: 0,
            from: address("/mail/letter/from"),
            to: address("/mail/letter/to"),
            message_type: message_type.unwrap_or_else(|| UNKNOWN.to_owned()),
            payload: Some(self.json.to_owned()),
            sent_at: self.read("/mail/letter/sentAt").unwrap_or(now),
        }
    }

    /// Its place in its stream alone, in its stead; `None` where that cannot be told.
    fn place<C: Container>(
        &self,
        side: Side,
        location: &Location,
        now: Timestamp,
    ) -> Option<MessageDocument<C>> {
        let id = self.id.clone()?;
        let to = match side {
            Side::Inbox => self.here.clone(),
            // Where nobody knows whom it was for, its receiver waits until nothing can come any more.
            Side::Outbox => self.read("/mail/letter/to")?,
        };
        let envelope = Envelope {
            stream: id.stream,
            number: id.number,
            from: self.read("/mail/letter/from").unwrap_or(self.here.clone()),
            to,
            message_type: UNKNOWN.to_owned(),
            payload: None,
            sent_at: now,
        };
        let document = match side {
            Side::Inbox => MessageDocument::incoming(arriving(envelope), now),
            Side::Outbox => {
                let envelope = Envelope {
                    from: self.here.clone(),
                    ..envelope
                };
                let tries = Tries::default();
                MessageDocument::outgoing(Outgoing { envelope, tries }, now)
            }
        };
        let takes_its_place = document.key().to_id().ok()? == location.id;
        takes_its_place.then_some(document)
    }
}

/// The message in a document that could not be read when it became a dead letter, and perhaps can be by now: by a newer
/// program, for one.
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
        _ => Err(unreadable(&"it holds no message")),
    }
}
