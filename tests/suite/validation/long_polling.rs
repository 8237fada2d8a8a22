//! Long polls: the provider waits up to the timeout, unless the caller asks for an immediate
//! answer.
//!
//! duroxide's functions measure the machine's time. Where they have an upper bound, the test
//! measures simulated time.

use std::time::Duration;

use cdb_tests::Backend;
use duroxide::provider_validation::long_polling as promise;
use tokio::time::Instant;

/// No bound: the time of a round trip is the machine's.
const THRESHOLD: Duration = Duration::MAX;
/// A few round trips in simulated time.
const AT_ONCE: Duration = Duration::from_millis(10);

async fn short() -> Backend {
    Backend::start_simulated_with(|config| config.long_polling = false).await
}

#[tokio::test(start_paused = true)]
async fn short_poll_returns_immediately() {
    let backend = short().await;
    let provider = backend.provider().await;
    let begun = Instant::now();
    promise::test_short_poll_returns_immediately(&provider, THRESHOLD).await;
    assert!(begun.elapsed() < AT_ONCE || backend.emulator().is_none());
    backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn short_poll_work_item_returns_immediately() {
    let backend = short().await;
    let provider = backend.provider().await;
    let begun = Instant::now();
    promise::test_short_poll_work_item_returns_immediately(&provider, THRESHOLD).await;
    assert!(begun.elapsed() < AT_ONCE || backend.emulator().is_none());
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

#[tokio::test(start_paused = true)]
async fn fetch_respects_timeout_upper_bound() {
    /// The function's limit: its timeout and a tolerance.
    const BOUND: Duration = Duration::from_millis(300 + 200);
    let backend = Backend::start_simulated().await;
    let provider = backend.provider().await;
    let begun = (Instant::now(), std::time::Instant::now());
    let fetch = async move { promise::test_fetch_respects_timeout_upper_bound(&provider).await };
    let judged = tokio::spawn(fetch).await;
    let took = begun.0.elapsed();
    assert!(took < BOUND || backend.emulator().is_none(), "{took:?}");
    // On a slow machine the requests alone can take longer.
    assert!(judged.is_ok() || begun.1.elapsed() >= BOUND, "{judged:?}");
    backend.stop().await;
}
