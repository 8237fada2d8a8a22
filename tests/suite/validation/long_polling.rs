//! Waiting: our provider waits as long as it may, unless it is told to answer at once.

use std::time::Duration;

use cdb_tests::Backend;
use duroxide::provider_validation::long_polling as promise;

/// One round trip, however loaded the machine is.
const THRESHOLD: Duration = Duration::from_millis(400);

async fn short() -> Backend {
    Backend::start_with(|config| config.long_polling = false).await
}

#[tokio::test]
async fn short_poll_returns_immediately() {
    let backend = short().await;
    promise::test_short_poll_returns_immediately(&backend.provider().await, THRESHOLD).await;
    backend.stop().await;
}

#[tokio::test]
async fn short_poll_work_item_returns_immediately() {
    let backend = short().await;
    let provider = backend.provider().await;
    promise::test_short_poll_work_item_returns_immediately(&provider, THRESHOLD).await;
    backend.stop().await;
}

#[tokio::test]
async fn long_poll_waits_for_timeout() {
    let backend = Backend::start().await;
    promise::test_long_poll_waits_for_timeout(&backend.provider().await).await;
    backend.stop().await;
}

#[tokio::test]
async fn long_poll_work_item_waits_for_timeout() {
    let backend = Backend::start().await;
    promise::test_long_poll_work_item_waits_for_timeout(&backend.provider().await).await;
    backend.stop().await;
}

#[tokio::test]
async fn fetch_respects_timeout_upper_bound() {
    let backend = Backend::start().await;
    promise::test_fetch_respects_timeout_upper_bound(&backend.provider().await).await;
    backend.stop().await;
}
