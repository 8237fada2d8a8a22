//! Deletions and sweeps are background requests; turns, polls and single deletions are not.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cdb_client::transport::{
    HttpRequest, HttpResponse, SimulatedTime, Transport, TransportError, async_trait,
};
use cdb_provider::documents::Status;
use cdb_provider::{CosmosDBProvider, CosmosDBProviderConfig};
use cdb_tests::Backend;
use duroxide::providers::{InstanceFilter, ProviderAdmin as _, PruneOptions};

use crate::retention::create;

/// Whether each request had a low priority.
#[derive(Clone, Debug, Default)]
struct Log(Arc<Mutex<Vec<bool>>>);

/// The requests of low priority, and all of them.
type Counts = (usize, usize);

impl Log {
    fn add(&self, request: &HttpRequest) {
        let level = request.headers.get("x-ms-cosmos-priority-level");
        let is_low = level.is_some_and(|level| level == "Low");
        self.requests().push(is_low);
    }

    fn requests(&self) -> MutexGuard<'_, Vec<bool>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts the requests since the last call.
    fn take(&self) -> Counts {
        let requests = std::mem::take(&mut *self.requests());
        let low = requests.iter().filter(|is_low| **is_low).count();
        (low, requests.len())
    }
}

/// A network that logs all requests.
#[derive(Clone, Debug)]
struct Recorder {
    time: SimulatedTime,
    log: Log,
}

#[async_trait]
impl Transport for Recorder {
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, TransportError> {
        self.log.add(&request);
        self.time.send(request).await
    }
}

/// Opens a provider whose requests are logged. `None` on an account.
async fn recorded(
    backend: &Backend,
    change: impl FnOnce(&mut CosmosDBProviderConfig),
) -> Option<(CosmosDBProvider, Log)> {
    let log = Log::default();
    let through = |time| Recorder {
        time,
        log: log.clone(),
    };
    let provider = backend.provider_through(change, through).await?;
    Some((provider, log))
}

#[tokio::test(start_paused = true)]
async fn bulk_deletions_are_background_work_and_single_ones_are_not() {
    let backend = Backend::start_simulated().await;
    // Nothing else runs.
    let quiet = |config: &mut CosmosDBProviderConfig| {
        config.reconciler_interval = Duration::from_secs(3600);
    };
    let (provider, log) = or_skip!(recorded(&backend, quiet).await);
    for id in ["purged", "bulk", "single"] {
        create(&provider, id, None, Status::Completed).await;
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(log.take().0, 0, "opening and creation");
    let options = PruneOptions::default();
    let pruned = provider.prune_executions("single", options.clone()).await;
    pruned.expect("nothing to prune");
    let ids = ["single".to_owned()];
    let deleted = provider.delete_instances_atomic(&ids, false).await;
    assert_eq!(deleted.expect("it is deleted").instances_deleted, 1);
    let (low, all) = log.take();
    assert!(low == 0 && all > 0, "{low} of {all}");

    let pruned = provider.prune_executions_bulk(InstanceFilter::default(), options);
    pruned.await.expect("nothing to prune");
    let (low, all) = log.take();
    assert!(low == all && all > 0, "{low} of {all}: prune");
    let filter = InstanceFilter {
        instance_ids: Some(vec!["bulk".to_owned()]),
        ..InstanceFilter::default()
    };
    let deleted = provider.delete_instance_bulk(filter).await;
    assert_eq!(deleted.expect("it is deleted").instances_deleted, 1);
    let (low, all) = log.take();
    assert!(low == all && all > 0, "{low} of {all}: bulk");
    let mut purge = provider.purge_ended(Duration::ZERO);
    assert_eq!(purge.remaining().await.expect("a count"), 1);
    assert!(purge.next_slice().await.expect("it is deleted").is_some());
    let (low, all) = log.take();
    assert!(low == all && all > 0, "{low} of {all}: purge");
    backend.stop().await;
}

/// Returns the requests of low priority, and all, of two hours with these settings.
async fn idle(change: impl FnOnce(&mut CosmosDBProviderConfig)) -> Option<Counts> {
    let backend = Backend::start_simulated().await;
    let (provider, log) = recorded(&backend, |config| {
        config.reconciler_interval = Duration::from_secs(600);
        config.orphan_age = Duration::from_secs(365 * 86_400);
        change(config);
    })
    .await?;
    tokio::time::sleep(Duration::from_secs(7200)).await;
    let counts = log.take();
    drop(provider);
    backend.stop().await;
    Some(counts)
}

#[tokio::test(start_paused = true)]
async fn retention_and_the_sweep_of_chunks_are_background_work() {
    let (low, all) = or_skip!(idle(|_| {}).await);
    assert!(low == 0 && all > 0, "{low} of {all}: searches for intents");
    let retention = idle(|config| config.retention = Some(Duration::from_secs(3600)));
    let (low, _) = retention.await.expect("an emulator");
    assert!(low > 0, "retention");
    let sweep = idle(|config| config.orphan_age = Duration::from_secs(3600));
    let (low, _) = sweep.await.expect("an emulator");
    assert!(low > 0, "sweep");
}
