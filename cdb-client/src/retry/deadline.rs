//! The deadline of a call that sends several requests.
//!
//! Each request has the deadline of [`RetryConfig`](crate::retry::RetryConfig). A call that sends requests
//! again gives all of them one deadline, which they inherit from their task: no request goes on
//! after it, and none is sent after it. A task that the call spawns does not inherit it.

use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::time::Instant;

tokio::task_local! {
    /// When the requests of this task end; `None` if only their own deadlines limit them.
    static ENDS_AT: Option<Instant>;
}

/// Awaits a call whose requests all end within `limit`. Within another such call, the earlier end
/// counts.
///
/// ```
/// use std::time::Duration;
/// use cdb_client::ContainerClient;
/// use cdb_client::retry::within_deadline;
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::{OrderKey, Shop};
///
/// /// Waits for an order, no longer than for a single request.
/// async fn placed(shop: &ContainerClient<Shop>, key: &OrderKey) -> cdb_client::Result<()> {
///     let wait = async {
///         while shop.read(key).await?.is_none() {
///             tokio::time::sleep(Duration::from_millis(100)).await;
///         }
///         Ok(())
///     };
///     within_deadline(shop.deadline(), wait).await // then the next read fails
/// }
/// ```
pub fn within_deadline<'a, F>(limit: Duration, call: F) -> BoxFuture<'a, F::Output>
where
    F: Future<Output: Send> + Send + 'a,
{
    // Boxed as a trait object: the compiler need not look into it to see that callers are `Send`.
    let call = call.boxed();
    Box::pin(async move {
        let own = Instant::now().checked_add(limit);
        let ends_at = match (own, inherited()) {
            (Some(own), Some(outer)) => Some(own.min(outer)),
            (own, outer) => own.or(outer),
        };
        ENDS_AT.scope(ends_at, call).await
    })
}

/// Awaits a part of a call that its deadline does not limit: a read of what became of a write, or
/// work that other calls wait for, too.
pub fn with_own_deadline<F: Future>(part: F) -> impl Future<Output = F::Output> {
    ENDS_AT.scope(None, Box::pin(part))
}

/// Returns the time until the end of the call of this task, or `Duration::MAX` if its requests have
/// only their own deadlines.
pub fn time_left() -> Duration {
    let left = |ends_at: Instant| ends_at.saturating_duration_since(Instant::now());
    inherited().map_or(Duration::MAX, left)
}

fn inherited() -> Option<Instant> {
    ENDS_AT.try_with(|ends_at| *ends_at).ok().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn the_earliest_end_counts_except_for_work_with_its_own_deadline() {
        assert_eq!(time_left(), Duration::MAX);
        within_deadline(MINUTE, async {
            tokio::time::advance(MINUTE / 2).await;
            assert_eq!(
                within_deadline(MINUTE, async { time_left() }).await,
                MINUTE / 2
            );
            assert_eq!(
                within_deadline(MINUTE / 4, async { time_left() }).await,
                MINUTE / 4
            );
            assert_eq!(
                within_deadline(Duration::MAX, async { time_left() }).await,
                MINUTE / 2
            );
            assert_eq!(
                with_own_deadline(async { time_left() }).await,
                Duration::MAX
            );
            tokio::time::advance(MINUTE).await;
            assert_eq!(time_left(), Duration::ZERO);
        })
        .await;
    }
}
