//! Answers that arrive late, when what they say is not true any more.

use std::sync::Arc;
use std::time::Duration;

use cdb_client::transport::{
    HttpRequest, HttpResponse, SimulatedTime, Transport, TransportError, async_trait,
};
use cdb_coordination::membership::InMemoryLeaseProvider;
use cdb_work::{NewWork, WorkConfig, WorkCoordinator};
use tokio::sync::watch;

use crate::liveness::sender;
use crate::recorded::Recorded;
use crate::test_env::{TestEnv, applied, message, next};

/// A network that withholds the answers to some requests while it is told to.
#[derive(Debug)]
struct Withheld {
    network: SimulatedTime,
    withhold: watch::Receiver<bool>,
    /// Whether the answer to a request with this body is withheld.
    concerns: fn(&str) -> bool,
}

#[async_trait]
impl Transport for Withheld {
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, TransportError> {
        let body = String::from_utf8_lossy(&request.body);
        let is_withheld = (self.concerns)(&body);
        let answer = self.network.send(request).await;
        if is_withheld {
            let is_over = self
                .withhold
                .clone()
                .wait_for(|withhold| !withhold)
                .await
                .map(drop);
            is_over.expect("the test runs");
        }
        answer
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_that_is_completed_during_a_sweep_is_not_handed_out_again() {
    let env = TestEnv::start().await;
    let time = or_skip!(env.time(), "needs the emulator");
    let (withhold, changes) = watch::channel(false);
    let network = Withheld {
        network: time.clone(),
        withhold: changes,
        // A sweep begins with the oldest message.
        concerns: |body| body.contains("ORDER BY") && body.contains("\"value\":0}"),
    };
    let mut settings = WorkConfig::default();
    settings.remember = Duration::ZERO;
    let slots = Arc::new(InMemoryLeaseProvider::all());
    let work = WorkCoordinator::open(env.with_default_retry(network), slots, settings);
    let work = work.await.unwrap();
    let sender = sender(&env).await;
    sender.immediate().store(message("a", 1)).await.unwrap();
    let claimed = next(&work).await;
    withhold.send_replace(true);
    let sweeping = tokio::spawn({
        let work = work.clone();
        async move { work.claim(1, Duration::from_secs(15)).await }
    });
    tokio::time::sleep(Duration::from_secs(11)).await;
    work.immediate().report(applied(claimed)).await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(work.forget_streams(Duration::ZERO).await.unwrap(), 1);
    withhold.send_replace(false);
    let again = sweeping.await.unwrap();
    assert!(again.is_empty(), "{again:?}");
    // The stream starts again.
    let again = NewWork::inbox("a", "2").with_body("count", "");
    sender.immediate().store(again).await.unwrap();
    assert_eq!(next(&work).await.message().message_id, "2");
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_was_renewed_after_it_was_read_is_not_taken() {
    let recorded = Recorded::default();
    let _recording = metrics::set_default_local_recorder(&recorded);
    let env = TestEnv::start().await;
    let time = or_skip!(env.time(), "needs the emulator");
    let settings = WorkConfig::default();
    let first = env.open(settings.clone()).await;
    let (withhold, changes) = watch::channel(true);
    let network = Withheld {
        network: time.clone(),
        withhold: changes,
        concerns: |body| body.contains("work_partition"),
    };
    let slots = Arc::new(InMemoryLeaseProvider::all());
    let container = env.with_default_retry(network);
    let opening = tokio::spawn(WorkCoordinator::open(container, slots, settings.clone()));
    // The answer arrives when the leases that it contains would have ended.
    tokio::time::sleep(settings.lease + Duration::from_secs(1)).await;
    withhold.send_replace(false);
    let second = opening.await.unwrap().unwrap();
    assert!(second.partitions().is_empty(), "{:?}", second.partitions());
    tokio::time::sleep(settings.lease).await;
    assert_eq!(first.partitions().len(), 32);
    assert_eq!(recorded.under("cdb.work.").get("leases lost"), None);
}
