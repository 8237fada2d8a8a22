//! The background tasks: searches for messages that other processes left.

use std::sync::Arc;
use std::time::Duration;

use cdb_client::Error;
use cdb_model::{Container, MemberOf, Query};

use super::inner::Inner;
use crate::message::{MessageDocument, Side};
use crate::outbox::reconcile;
use crate::search::Rows;

/// Messages per page of the search for arrivals.
const PAGE: u32 = 256;

/// The most pages of one search for arrivals.
const PAGES: usize = 4;

/// How many partitions may wait to receive before the search pauses.
const WAITING: usize = 256;

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
                while inner.pause_search().await {
                    let searched = inner.look_for_arrivals().await;
                    searched.unwrap_or_else(
                        |error| tracing::warn!(%error, "the search for arrived messages failed"),
                    );
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

    /// Waits until the next search for arrivals. Returns `false` when messaging has stopped.
    async fn pause_search(&self) -> bool {
        while self.pause(self.config.poll_interval).await {
            if self.hints.count() < self.config.concurrency.saturating_add(WAITING) {
                return true;
            }
        }
        false
    }

    /// Finds partitions with messages that were delivered and not received. After a few pages, or
    /// when enough partitions begin to receive, the next search goes on where this one has ended: a
    /// backlog of some partitions does not hide the others.
    async fn look_for_arrivals(&self) -> Result<(), Error> {
        let query = Query::<MessageDocument<C>>::across_partitions()
            .filter(MessageDocument::<C>::RECEIVE_DUE.le(self.container.now()))
            .order_by(MessageDocument::<C>::BY_RECEIVE_DUE);
        let run = self.container.query(query).page_size(PAGE).row_by_row();
        let mut pages = run.pages();
        let (mut read, mut started) = (0, 0);
        while let Some(page) = pages.next_page().await? {
            let found = Rows::apart(page);
            self.dead_letter_unreadable(Side::Inbox, &found.unreadable)
                .await;
            let partitions = found.rows.iter().map(|row| row.document.partition());
            started += partitions
                .filter(|&partition| self.hint(partition.clone()))
                .count();
            read += 1;
            let is_enough = read >= PAGES || started >= self.config.concurrency;
            if is_enough && pages.has_more() {
                if !self.pause_search().await {
                    break;
                }
                (read, started) = (0, 0);
            }
        }
        Ok(())
    }
}
