//! The claim of a message: until when this process alone handles it. Renewed while its handler runs.
//!
//! A claim spares work and decides nothing: the receipt is written under the record of the stream.

use std::time::Duration;

use cdb_client::Error;
use cdb_model::container::MemberOf;
use cdb_model::{Container, Document as _, Patch, Stored, Timestamp};
use tokio::time::{sleep, timeout};

use super::inner::Inner;
use super::partition::incoming;
use crate::lease::{Lockable, Renewed, renew_lock};
use crate::message::{Content, Incoming, MessageDocument};
use crate::timing::SHORTEST_RENEWAL_PAUSE;

/// A message that this process has claimed.
pub(super) struct Claimed<'a, C> {
    pub(super) stored: Stored<MessageDocument<C>>,
    pub(super) incoming: Incoming,
    /// The record of its stream.
    pub(super) seen: Option<&'a Stored<MessageDocument<C>>>,
}

/// The state of a claim after an attempt to renew it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(super) enum Renewal {
    /// This process has the claim, or no answer says otherwise.
    Held,
    /// Another process has claimed or received the message.
    Lost,
}

impl<C: Container> Lockable for MessageDocument<C> {
    fn lock_mark(&self) -> Option<&str> {
        match self.content() {
            Content::Incoming(incoming) => incoming.claimed_by.as_deref(),
            _ => None,
        }
    }

    fn locked_until(&self) -> Option<Timestamp> {
        self.receive_due
    }
}

impl<C: Container> Claimed<'_, C> {
    /// How long the claim still lasts.
    pub(super) fn remaining(&self, now: Timestamp) -> Duration {
        let due = self.stored.document.receive_due;
        due.map_or(Duration::ZERO, |due| due.since(now))
    }
}

impl<C: Container> Inner<C>
where
    MessageDocument<C>: MemberOf<C>,
{
    /// Claims a message, and counts the attempt before it begins. Returns `None` when another
    /// process was faster.
    pub(super) async fn claim<'a>(
        &self,
        stored: &Stored<MessageDocument<C>>,
        seen: Option<&'a Stored<MessageDocument<C>>>,
    ) -> Result<Option<Claimed<'a, C>>, Error> {
        let Some(found) = incoming(stored) else {
            return Ok(None);
        };
        let now = self.container.now();
        let incoming = Incoming {
            claimed_by: Some(self.me.clone()),
            started: found.started.saturating_add(1),
            ..found.clone()
        };
        let document = MessageDocument::<C>::incoming(incoming.clone(), now + self.config.claim);
        let written = self
            .container
            .run(document.replace().if_match(&stored.etag))
            .await;
        match written {
            Ok(written) => Ok(document.stored(written.etag, now).map(|stored| Claimed {
                stored,
                incoming,
                seen,
            })),
            Err(error)
                if error.is_precondition_failed()
                    || error.is_not_found()
                    || error.is_ambiguous() =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Renews a claim, for at most a third of its duration. After an error the claim lasts as long
    /// as before, and the next renewal reads the version that this one has left.
    pub(super) async fn renew(&self, claimed: &mut Claimed<'_, C>) -> Renewal {
        let until = self.container.now() + self.config.claim;
        let longer = Patch::new().set(MessageDocument::<C>::RECEIVE_DUE, Some(until));
        let kept = renew_lock(&self.container, &claimed.stored, &longer);
        match timeout(self.config.claim / 3, kept).await {
            Ok(Ok(Renewed::Written(etag))) => {
                claimed.stored.etag = etag;
                claimed.stored.document.receive_due = Some(until);
            }
            Ok(Ok(Renewed::StillLocked(found))) => claimed.stored = *found,
            Ok(Ok(Renewed::Lost)) => return Renewal::Lost,
            Ok(Err(error)) => tracing::debug!(%error, "the claim of a message was not renewed"),
            Err(late) => tracing::debug!(error = %late, "the claim of a message was not renewed"),
        }
        Renewal::Held
    }

    /// Runs `work` and renews the claim when a third of it has passed. Returns `None`, and drops
    /// `work`, when another process has claimed or received the message.
    pub(super) async fn renewing<T>(
        &self,
        claimed: &mut Claimed<'_, C>,
        work: impl Future<Output = T>,
    ) -> Option<T> {
        tokio::pin!(work);
        loop {
            let pause = match claimed.remaining(self.container.now()) / 3 {
                // The service was away for the whole claim. Any process may claim the message.
                Duration::ZERO => self.config.claim / 3,
                third => third,
            };
            tokio::select! {
                biased;
                done = &mut work => return Some(done),
                () = sleep(pause.max(SHORTEST_RENEWAL_PAUSE)) => {}
            }
            // A renewal is not interrupted: a failed attempt is stored under the version that it
            // leaves.
            let renewal = self.renew(claimed);
            tokio::pin!(renewal);
            tokio::select! {
                renewed = &mut renewal => if renewed == Renewal::Lost {
                    return None;
                },
                done = &mut work => {
                    // The receipt decides, also after a lost claim.
                    let _held_or_lost = renewal.await;
                    return Some(done);
                }
            }
        }
    }
}
