//! One look for all queues, while nothing comes.
//!
//! Each queue has a poll of its own, which knows what this process can work on. When polls have found nothing for a
//! while, they are preceded by one cheap question for all of them: is anything due at all? Its answer serves every
//! queue, so an idle provider sends one request per interval.

use std::time::Duration;

use cdb_model::{Filter, Query};
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::documents::{Durable, FIRST_DUE, OrchestratorItem, OutboxIntent, WorkerItem};
use crate::error::Result;
use crate::provider::Inner;

/// From this interval on a poll is preceded by the question.
const CALM: Duration = Duration::from_millis(200);

/// When the container was last looked at, and whether anything was due.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    last: Mutex<Option<(Instant, bool)>>,
}

impl Watch {
    /// Does `poll`, unless nothing at all is due. `interval` is the time since the poll before.
    ///
    /// # Errors
    /// Those of the question and of `poll`.
    pub(crate) async fn unless_quiet<T: Default>(
        &self,
        inner: &Inner,
        interval: Duration,
        poll: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        if interval >= CALM && self.is_quiet(inner, interval).await? {
            return Ok(T::default());
        }
        poll.await
    }

    /// Whether nothing is due, by an answer that is younger than `interval`.
    pub(crate) async fn is_quiet(&self, inner: &Inner, interval: Duration) -> Result<bool> {
        let mut last = self.last.lock().await;
        // A little less, so that who asks at this very interval gets a new answer each time.
        let fresh = interval * 9 / 10;
        if let Some((at, quiet)) = *last
            && at.elapsed() < fresh
        {
            return Ok(quiet);
        }
        let asked_at = Instant::now();
        let quiet = nothing_is_due(inner).await?;
        let was_quiet = last
            .replace((asked_at, quiet))
            .is_none_or(|(_, quiet)| quiet);
        // What is due and stays so is nothing for this process, and no reason to hurry.
        if was_quiet && !quiet {
            inner.instances.poll_soon();
            inner.activities.poll_soon();
        }
        Ok(quiet)
    }
}

async fn nothing_is_due(inner: &Inner) -> Result<bool> {
    let now = inner.container.now();
    let undelivered = now - inner.reconciler_age;
    let mut due: Filter<Durable> = OutboxIntent::CREATED_AT.le(undelivered).within();
    let reach = inner.share.at_most().await;
    if !reach.is_nothing() {
        let (visible_at, slot) = (
            OrchestratorItem::VISIBLE_AT,
            OrchestratorItem::DISPATCH_SLOT,
        );
        due = reach.due(visible_at, slot, (FIRST_DUE, now)).within() | due;
        let (visible_at, slot) = (WorkerItem::VISIBLE_AT, WorkerItem::DISPATCH_SLOT);
        due = reach.due(visible_at, slot, (FIRST_DUE, now)).within() | due;
    }
    let query = Query::<Durable>::across_partitions().filter(due).top(1);
    let found = inner.container.query(query).row_by_row().all().await?;
    Ok(found.is_empty())
}
