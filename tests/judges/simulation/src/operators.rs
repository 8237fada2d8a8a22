//! Operators: processes that stand still for minutes between two requests, as a stopped one does, and
//! run at the same time. Every command ends, and can be repeated until it succeeds.

use std::fmt::Display;
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use cdb_client::CosmosClient;
use cdb_provider::CosmosDBProvider;
use duroxide::providers::ProviderError;
use tokio::time::{Instant, sleep, timeout};

use crate::node::open_for_clients;
use crate::random::Random;

/// The time that an operator stands still, around the locks of commands (60 s).
const STILL: std::ops::Range<Duration> = Duration::from_secs(10)..Duration::from_secs(300);

/// How often an operator stands still: the percentage of its steps. A request has several.
const OFTEN: u64 = 2;

/// The longest time of a command, besides the time for which its operator stands still. A fault of
/// all requests lasts minutes, and each request is retried for half a minute.
const LONGEST: Duration = Duration::from_secs(900);

/// The time in which a repeated command succeeds, likewise.
const PATIENCE: Duration = Duration::from_secs(1800);

/// The pause before a command is repeated.
const AGAIN: Duration = Duration::from_secs(2);

/// A process of an operator.
pub(crate) struct Operator {
    pub(crate) provider: CosmosDBProvider,
    random: Random,
    stood_still: Duration,
}

impl Operator {
    /// Opens the container, as a command does.
    pub(crate) async fn new(outside: &CosmosClient, seed: u64, name: &str) -> Result<Self, String> {
        Ok(Self {
            provider: cdb_chaos::keep_trying(|| open_for_clients(outside)).await?,
            random: Random::new(seed, name),
            stood_still: Duration::ZERO,
        })
    }

    /// Runs a command, and repeats it while the error says so.
    ///
    /// # Errors
    /// Says that the command does not end, or never succeeds.
    pub(crate) async fn run<T>(
        &mut self,
        what: &str,
        command: impl AsyncFn(&CosmosDBProvider) -> Result<T, ProviderError>,
    ) -> Result<Result<T, ProviderError>, String> {
        let began = Instant::now();
        let before = self.stood_still;
        loop {
            let ended = self.once(what, &command).await?;
            let took = began
                .elapsed()
                .saturating_sub(self.stood_still.saturating_sub(before));
            match ended {
                Err(error) if error.is_retryable() && took < PATIENCE => sleep(AGAIN).await,
                Err(error) if error.is_retryable() => return Err(failed(what, took, &error)),
                ended => return Ok(ended),
            }
        }
    }

    /// Runs a command once.
    async fn once<T>(
        &mut self,
        what: &str,
        command: impl AsyncFn(&CosmosDBProvider) -> Result<T, ProviderError>,
    ) -> Result<Result<T, ProviderError>, String> {
        let mut work = pin!(command(&self.provider));
        let mut left = LONGEST;
        loop {
            let random = &mut self.random;
            // `None` when it stands still. The answer that has arrived is seen afterwards.
            let step = poll_fn(|cx| match work.as_mut().poll(cx) {
                Poll::Ready(ended) => Poll::Ready(Some(ended)),
                Poll::Pending if random.chance(OFTEN) => Poll::Ready(None),
                Poll::Pending => Poll::Pending,
            });
            let began = Instant::now();
            match timeout(left, step).await {
                Ok(Some(ended)) => return Ok(ended),
                Ok(None) => {}
                Err(_) => return Err(failed(what, LONGEST, &"it does not end")),
            }
            left = left.saturating_sub(began.elapsed());
            let still = random.duration(STILL);
            self.stood_still += still;
            sleep(still).await;
        }
    }
}

fn failed(what: &str, took: Duration, why: &dyn Display) -> String {
    format!("{what} after {} s: {why}", took.as_secs())
}
