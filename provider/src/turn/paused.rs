//! Withholds what is due for a paused instance, so that polls do not find it again and again.

use cdb_model::{Batch, Patch, Stored};

use crate::error::Result;
use crate::queue::instances::Message;
use crate::stored::Store;
use crate::stored::documents::{Durable, Instance, OrchestratorItem, PAUSED};

/// Whether messages were withheld.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Withheld {
    Yes,
    /// The instance or a message has changed since it was read.
    Outdated,
}

/// Withholds the messages of a turn. The batch also writes the pause again, on the version
/// that was read: a message that is withheld after the resumption would never be delivered. It
/// ends a lock that has expired: an operator who stood still must not end the pause without this
/// message.
pub(super) async fn withhold(
    store: &Store,
    instance: &Stored<Instance>,
    messages: &[Message],
) -> Result<Withheld> {
    let mut batch = Batch::<Durable>::new(&*instance.document.instance_id);
    let paused = instance.document.paused.clone();
    let mut again = Patch::<Instance>::new().set(Instance::PAUSED, paused);
    if instance.document.lock_token.is_some() {
        again = again
            .set(Instance::LOCK_TOKEN, None)
            .set(Instance::LOCKED_UNTIL, None);
    }
    batch.add(again.at(instance))?;
    // The others are stored by their acknowledgements, which see the pause.
    for message in messages.iter().filter(|message| message.is_stored()) {
        let document = &message.stored.document;
        let withheld = Patch::<OrchestratorItem>::new()
            .set(OrchestratorItem::PAUSED, Some(document.due_at()))
            .set(OrchestratorItem::VISIBLE_AT, PAUSED)
            .set(OrchestratorItem::RESERVED, false);
        batch.add(withheld.at(&message.stored))?;
    }
    match store.container.execute(&batch).await {
        Ok(_) => Ok(Withheld::Yes),
        Err(error) if error.is_precondition_failed() || error.is_not_found() => {
            Ok(Withheld::Outdated)
        }
        Err(error) => Err(error.into()),
    }
}
