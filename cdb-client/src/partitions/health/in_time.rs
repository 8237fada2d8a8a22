//! Reads with a deadline: a partition that does not answer holds up no work while others answer.

use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::breakers::PartitionHealth;
use super::circuit::{Class, LONGEST};
use super::going_on::GOES_ON;
use crate::error::{Error, ErrorKind, Result};
use crate::partitions::ranges::PhysicalPartitionId;

/// The deadline of a read of a partition that has just refused one by 429.
const REFUSED: Duration = Duration::from_millis(250);

impl PartitionHealth {
    /// Awaits a read of a partition. It has a deadline while other partitions answer: a second, or
    /// twice the time of a recent slow answer; a quarter of a second after the partition has refused
    /// such a read by 429, for four times as long as it refused it. After the deadline, one such read
    /// at a time goes on without its caller, because its answer tells a slow partition from a silent
    /// one.
    ///
    /// # Errors
    /// When the request fails; [`Unavailable`](ErrorKind::Unavailable) after the deadline.
    pub(crate) async fn in_time<T: Send + 'static>(
        &self,
        range: &PhysicalPartitionId,
        class: Class,
        read: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        if self.behind_of(range, &[class]).is_none() {
            let patience = self.patience(range, class);
            return self.within(range, class, patience, read).await;
        }
        // Its end says nothing: the partition has answered a moment ago.
        let read = self.before(range, class, REFUSED, read).await;
        read.unwrap_or_else(|late| Err(late))
    }

    /// As [`in_time`](Self::in_time), with this deadline.
    pub(crate) async fn within<T: Send + 'static>(
        &self,
        range: &PhysicalPartitionId,
        class: Class,
        patience: Duration,
        read: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        let sent_at = Instant::now();
        let read = self.before(range, class, patience, read).await;
        read.unwrap_or_else(|late| {
            self.failed(range, sent_at, LONGEST);
            Err(late)
        })
    }

    /// Awaits a read until a deadline, after which the outer result is an error.
    async fn before<T: Send + 'static>(
        &self,
        range: &PhysicalPartitionId,
        class: Class,
        deadline: Duration,
        read: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<Result<T>> {
        if !self.others_answer(range, &[]) {
            return Ok(read.await);
        }
        let mut read = Box::pin(read);
        if let Ok(answered) = timeout(deadline, &mut read).await {
            return Ok(answered);
        }
        if self.lets_go_on(range, class) {
            tokio::spawn(timeout(GOES_ON, read));
        }
        let message = format!("physical partition {range} did not answer within {deadline:?}");
        Err(Error::new(ErrorKind::Unavailable, message))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::circuit::FIRST;
    use super::super::fixture::{health, ids};
    use super::*;

    const QUERIES: Class = Class::Queries;

    /// A query of partition 1 that is answered after this time.
    async fn answered_after(health: Arc<PartitionHealth>, time: Duration) -> Result<()> {
        let range = ids(&["1"]).remove(0);
        let watch = health.watch(range, QUERIES, false);
        tokio::time::sleep(time).await;
        watch.ended(&Ok(()));
        Ok(())
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_partition_has_a_deadline_while_another_one_answers() {
        let (health, all) = (Arc::new(health(&["0", "1"])), ids(&["0", "1"]));
        let silent = answered_after(health.clone(), Duration::MAX);
        let begun = Instant::now();
        let answer = health.in_time(&all[1], QUERIES, silent).await;
        assert!(answer.is_err_and(|error| error.is_transient()));
        assert_eq!(begun.elapsed(), FIRST);
        assert_eq!(health.available(all.clone()), ids(&["0"]));
        assert_eq!(health.backoff_of(&all[1]), Some(FIRST));
        tokio::time::advance(FIRST).await;
        assert!(health.is_silent(&all[1]) && !health.is_silent(&all[0]));
        assert_eq!(health.backoff_of(&all[1]), None, "a caller may try it");
        health.watch(all[1].clone(), QUERIES, false).ended(&Ok(()));
        assert!(health.all_answer() && !health.is_silent(&all[1]));
        assert_eq!(health.available(all.clone()), all);
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_partition_is_awaited_after_the_first_deadline() {
        let (health, all) = (Arc::new(health(&["0", "1"])), ids(&["0", "1"]));
        for seconds in 2..=5 {
            let slow = Duration::from_secs(seconds);
            let read = async || {
                let query = answered_after(health.clone(), slow);
                health.in_time(&all[1], QUERIES, query).await
            };
            if seconds == 2 {
                assert!(read().await.is_err());
                tokio::time::sleep(slow).await;
            }
            assert!(health.all_answer());
            assert!(read().await.is_ok(), "{slow:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn without_another_partition_that_answers_there_is_no_backoff_and_no_deadline() {
        let (health, all) = (Arc::new(health(&["0", "1"])), ids(&["0", "1"]));
        for range in &all {
            health.failed(range, Instant::now(), LONGEST);
        }
        assert_eq!(health.available(all.clone()), all);
        assert!(!health.all_answer());
        let slow = answered_after(health.clone(), FIRST * 5);
        assert!(health.in_time(&all[1], QUERIES, slow).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_partition_that_refused_a_query_is_awaited_briefly_and_is_not_silent() {
        let (health, all) = (Arc::new(health(&["0", "1"])), ids(&["0", "1"]));
        let refused_since = Some(Instant::now());
        tokio::time::advance(FIRST / 2).await;
        health.answered(&all[1], QUERIES, Duration::ZERO, true, refused_since);
        for (range, deadline) in [(&all[1], REFUSED), (&all[0], FIRST), (&all[1], REFUSED)] {
            let sent_at = Instant::now();
            let late = answered_after(health.clone(), FIRST * 2);
            assert!(health.in_time(range, QUERIES, late).await.is_err());
            assert_eq!((range, sent_at.elapsed()), (range, deadline));
            assert!(!health.is_silent(&all[1]));
            health.answered(&all[0], QUERIES, Duration::ZERO, false, None);
        }
        tokio::time::advance(FIRST * 2).await;
        let slow = answered_after(health.clone(), FIRST / 2);
        assert!(health.in_time(&all[1], QUERIES, slow).await.is_ok());
    }
}
