//! Calls that concurrent callers share, and their failures.

use std::sync::{Mutex, PoisonError};

use tokio::time::Instant;

use crate::error::{Error, Result};

/// A call that concurrent callers need once, such as a listing or a token. One of them makes it. If
/// it fails, so do all callers that began to wait before its end: otherwise each would wait in line
/// for a failure of its own.
///
/// ```
/// use cdb_client::Error;
/// use cdb_client::partitions::SharedCall;
///
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// let (listing, known) = (SharedCall::default(), std::sync::OnceLock::new());
/// let list = || async { Ok(known.get_or_init(|| 7)) };
/// assert_eq!(listing.run(|| known.get(), list).await?, &7);
/// # Ok::<(), Error>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct SharedCall {
    turn: tokio::sync::Mutex<()>,
    /// The end of the last failed call, and its error.
    failure: Mutex<Option<(Instant, Error)>>,
}

impl SharedCall {
    /// Returns what is known already, perhaps from the call of another caller. Makes the call if
    /// nothing is known and no other caller has failed to during the wait.
    ///
    /// # Errors
    /// When the call fails.
    pub async fn run<T, F>(
        &self,
        known: impl Fn() -> Option<T>,
        call: impl FnOnce() -> F,
    ) -> Result<T>
    where
        F: Future<Output = Result<T>>,
    {
        if let Some(known) = known() {
            return Ok(known);
        }
        let began = Instant::now();
        let _turn = self.turn.lock().await;
        if let Some(known) = known() {
            return Ok(known);
        }
        if let Some(error) = self.failure_since(began) {
            return Err(error);
        }
        let result = call().await;
        let failed = result.as_ref().err().map(Error::copy);
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) =
            failed.map(|error| (Instant::now(), error));
        result
    }

    fn failure_since(&self, began: Instant) -> Option<Error> {
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        let since = failure.as_ref().filter(|(at, _)| *at > began);
        since.map(|(_, error)| error.copy())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::time::Duration;

    use futures::future::join_all;
    use tokio::time::sleep;

    use super::*;

    const DEADLINE: Duration = Duration::from_secs(30);

    #[tokio::test(start_paused = true)]
    async fn callers_that_wait_for_a_call_share_its_failure() {
        let (calls, shared) = (Cell::new(0), SharedCall::default());
        let call = async || {
            calls.set(calls.get() + 1);
            sleep(DEADLINE).await;
            Err::<(), _>(Error::configuration("no answer"))
        };
        let begun = Instant::now();
        let callers = (0..100).map(|number| {
            let (shared, call) = (&shared, &call);
            async move {
                sleep(Duration::from_secs(number / 10)).await;
                assert!(shared.run(|| None, call).await.is_err());
            }
        });
        join_all(callers).await;
        assert_eq!((calls.get(), begun.elapsed()), (1, DEADLINE));
        // A later caller tries again.
        assert!(shared.run(|| None, &call).await.is_err());
        assert_eq!(calls.get(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn callers_that_wait_for_a_call_share_its_result() {
        let (known, shared) = (Cell::new(None), SharedCall::default());
        let callers = (0..10).map(|number| {
            let (shared, known) = (&shared, &known);
            let call = move || async move {
                sleep(DEADLINE).await;
                known.set(Some(number));
                Ok(number)
            };
            shared.run(|| known.get(), call)
        });
        let results = join_all(callers).await;
        assert!(results.into_iter().all(|result| result.is_ok()));
        assert_eq!(known.get(), Some(0));
    }
}
