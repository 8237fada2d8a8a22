//! Cancelled activities: delivered means that they are gone.
//!
//! One that runs finds its item gone when it renews its lock or ends. One that is missing has ended, or was removed by an
//! earlier delivery.

use cdb_model::Batch;
use duroxide::providers::ProviderError;

use super::Undelivered;
use super::messages::Mailbag;
use crate::documents::{Durable, OutboxIntent, WorkerItemKey};
use crate::error::{provider_error, unreadable};
use crate::provider::Inner;
use crate::spill::Leftover;

const CANCEL: &str = "cancel";

/// Removes the cancelled activities of intent number `number`: the small ones with the bag, the others at once.
pub(super) async fn deliver<'a>(
    inner: &'a Inner,
    bag: &mut Mailbag<'a>,
    (number, intent): (usize, &OutboxIntent),
) -> Result<(), Undelivered> {
    let instance_id = &*intent.instance_id;
    for of in &intent.cancelled {
        for id in &of.small {
            let key = WorkerItemKey::new(instance_id, of.execution_id, *id);
            bag.cancel(number, &key)?;
        }
        for id in &of.large {
            let key = WorkerItemKey::new(instance_id, of.execution_id, *id);
            let removed = remove_large(inner, &key).await;
            removed.map_err(Undelivered::Unread)?;
        }
    }
    Ok(())
}

/// Removes an activity together with the chunks of its input.
async fn remove_large(inner: &Inner, key: &WorkerItemKey) -> Result<(), ProviderError> {
    let found = inner.container.read(key).await;
    let found = found.map_err(|error| provider_error(CANCEL, &error))?;
    let Some(item) = found.map(|stored| stored.document) else {
        return Ok(());
    };
    let mut batch = Batch::<Durable>::new(&*item.instance_id);
    let leftover = Leftover::of(inner, &item.instance_id, [&item.work_item]);
    // Whoever runs it may have renewed its lock meanwhile, which makes no difference.
    batch
        .delete(key)
        .and_then(|_| match &leftover {
            Some(leftover) => leftover.add_to(&mut batch),
            None => Ok(()),
        })
        .map_err(|error| unreadable(CANCEL, error))?;
    match inner.container.execute(&batch).await {
        Err(error) if !error.is_not_found() => return Err(provider_error(CANCEL, &error)),
        _ => {}
    }
    if let Some(leftover) = leftover {
        leftover.remove(inner);
    }
    Ok(())
}
