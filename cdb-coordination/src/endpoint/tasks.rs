//! The background tasks: searches for messages that other processes left.

use std::sync::Arc;
use std::time::Duration;

use cdb_client::Error;
use cdb_model::container::MemberOf;
use cdb_model::{Container, Query};

use super::inner::Inner;
use crate::message::{MessageDocument, Side};
use crate::outbox::reconcile;
use crate::search::{MAX_ROWS, Rows};

/// Messages per page of the search for arrivals.
const PAGE: u32 = 256;

/// The most pages of one search for arrivals.
const PAGES: u32 = MAX_ROWS / PAGE;

/// How many partitions may wait to receive before the search pauses: those of a whole search,
/// because perhaps none of them can receive now.
const WAITING: usize = MAX_ROWS as usize;

impl<C: Container> Inner<C>
where
    MessageDocument<C>: MemberOf<C>,
{
    pub(crate) fn start(self: &Arc<Self>) {
        self.spawn(|inner| async move {
            if !inner.supports_schema().await {
                return;
            }
            while inner.pause(inner.config.poll_interval).await {
                while reconcile(&*inner, &inner.config.retry, &inner.jitter).await {}
            }
        });
        if self.receives() {
            self.spawn(|inner| async move {
                if !inner.supports_schema().await {
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
            if self.has_room() {
                return true;
            }
        }
        false
    }

    fn has_room(&self) -> bool {
        self.hints.count() < self.config.concurrency.saturating_add(WAITING)
    }

    /// Finds partitions with messages that were delivered and not received. After a few pages, or
    /// when too many partitions wait, the next search goes on where this one has ended: a backlog
    /// of some partitions does not hide the others.
    async fn look_for_arrivals(&self) -> Result<(), Error> {
        let query = Query::<MessageDocument<C>>::across_partitions()
            .filter(MessageDocument::<C>::RECEIVE_DUE.le(self.container.now()))
            .order_by(MessageDocument::<C>::BY_RECEIVE_DUE);
        let run = self.container.query(query).page_size(PAGE).row_by_row();
        let mut pages = run.skip_unavailable().pages();
        let mut read = 0;
        while !self.stop.is_cancelled()
            && let Some(page) = pages.next_page().await?
        {
            let found = Rows::apart(page);
            self.dead_letter_unreadable(Side::Inbox, &found.unreadable)
                .await;
            for row in &found.rows {
                self.hint(row.document.partition().clone());
            }
            read += 1;
            if (read >= PAGES || !self.has_room()) && pages.has_more() {
                if !self.pause_search().await {
                    break;
                }
                read = 0;
            }
        }
        Ok(())
    }
}
