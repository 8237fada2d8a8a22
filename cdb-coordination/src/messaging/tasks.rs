//! The background tasks: searches for messages that other processes left.

use std::sync::Arc;
use std::time::Duration;

use cdb_model::{Container, MemberOf, Query};

use super::inner::Inner;
use crate::message::{MessageDocument, Side};
use crate::outbox::reconcile;
use crate::search::find;

/// The most messages that one search for arrivals returns.
const FOUND: usize = 256;

impl<C: Container> Inner<C>
where
    MessageDocument<C>: MemberOf<C>,
{
    pub(super) fn start(self: &Arc<Self>) {
        self.spawn(|inner| async move {
            if !inner.supports_form().await {
                return;
            }
            while inner.pause(inner.config.poll_interval).await {
                while reconcile(&*inner, &inner.config.retry, &inner.jitter).await {}
            }
        });
        if self.receives() {
            self.spawn(|inner| async move {
                if !inner.supports_form().await {
                    return;
                }
                while inner.pause(inner.config.poll_interval).await {
                    inner.look_for_arrivals().await;
                }
            });
        }
    }

    /// Waits. Returns `false` when messaging has stopped.
    pub(super) async fn pause(&self, duration: Duration) -> bool {
        tokio::select! {
            () = self.stop.cancelled() => false,
            () = tokio::time::sleep(duration) => true,
        }
    }

    /// Finds partitions with messages that were delivered and not received.
    async fn look_for_arrivals(&self) {
        let query = Query::<MessageDocument<C>>::across_partitions()
            .filter(MessageDocument::<C>::RECEIVE_DUE.le(self.container.now()))
            .order_by(MessageDocument::<C>::BY_RECEIVE_DUE);
        match find(&self.container, query, FOUND).await {
            Ok(found) => {
                self.dead_letter_unreadable(Side::Inbox, &found.unreadable)
                    .await;
                for stored in found.rows {
                    self.hint(stored.document.partition().clone());
                }
            }
            Err(error) => tracing::warn!(%error, "the search for arrived messages failed"),
        }
    }
}
