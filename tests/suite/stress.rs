//! Short forms of duroxide's stress scenarios: every orchestration succeeds.

use std::sync::Arc;

use async_trait::async_trait;
use cdb_tests::Backend;
use duroxide::provider_stress_tests::large_payload::{
    LargePayloadConfig, run_large_payload_test_with_config,
};
use duroxide::provider_stress_tests::parallel_orchestrations::{
    ProviderStressFactory, run_parallel_orchestrations_test_with_config,
};
use duroxide::provider_stress_tests::{StressTestConfig, StressTestResult};
use duroxide::providers::Provider;

use crate::harness::Wait;

struct Stressed(Backend);

#[async_trait]
impl ProviderStressFactory for Stressed {
    async fn create_provider(&self) -> Arc<dyn Provider> {
        Arc::new(self.0.provider().await)
    }
}

/// Repeats a scenario until a run is complete. A scenario gives up two minutes after its last
/// start, which only shows that the machine is slow.
async fn succeeds(scenario: impl AsyncFn(&Stressed) -> StressTestResult) {
    let mut wait = Wait::begin();
    loop {
        let factory = Stressed(Backend::start().await);
        let result = scenario(&factory).await;
        factory.0.stop().await;
        assert_eq!(result.failed, 0, "{result:?}");
        assert!(result.launched > 0, "{result:?}");
        if result.completed == result.launched {
            return;
        }
        assert!(!wait.is_over(), "{result:?}");
    }
}

/// Starts orchestrations for three seconds, and waits for all of them.
fn config(max_concurrent: usize) -> StressTestConfig {
    StressTestConfig {
        max_concurrent,
        duration_secs: 3,
        wait_timeout_secs: 24 * 3600,
        ..StressTestConfig::default()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parallel_orchestrations_all_succeed() {
    succeeds(async |factory| {
        let result = run_parallel_orchestrations_test_with_config(factory, config(10)).await;
        result.expect("the scenario runs")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_payloads_all_succeed() {
    succeeds(async |factory| {
        let config = LargePayloadConfig {
            base: StressTestConfig {
                activity_delay_ms: 5,
                orch_concurrency: 1,
                worker_concurrency: 1,
                ..config(3)
            },
            ..LargePayloadConfig::default()
        };
        let result = run_large_payload_test_with_config(factory, config).await;
        result.expect("the scenario runs")
    })
    .await;
}
