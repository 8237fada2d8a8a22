//! duroxide's own stress scenarios, short, at 100 % success.

use std::sync::Arc;

use async_trait::async_trait;
use cdb_tests::Backend;
use duroxide::provider_stress_tests::StressTestConfig;
use duroxide::provider_stress_tests::large_payload::{
    LargePayloadConfig, run_large_payload_test_with_config,
};
use duroxide::provider_stress_tests::parallel_orchestrations::{
    ProviderStressFactory, run_parallel_orchestrations_test_with_config,
};
use duroxide::providers::Provider;

struct Stressed(Backend);

#[async_trait]
impl ProviderStressFactory for Stressed {
    async fn create_provider(&self) -> Arc<dyn Provider> {
        Arc::new(self.0.provider().await)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parallel_orchestrations_all_succeed() {
    let factory = Stressed(Backend::start().await);
    let config = StressTestConfig {
        max_concurrent: 10,
        duration_secs: 3,
        ..StressTestConfig::default()
    };
    let result = run_parallel_orchestrations_test_with_config(&factory, config)
        .await
        .expect("the scenario runs");
    assert!(result.completed > 0);
    assert!(
        (result.success_rate() - 100.0).abs() < f64::EPSILON,
        "{result:?}"
    );
    factory.0.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_payloads_all_succeed() {
    let factory = Stressed(Backend::start().await);
    let mut config = LargePayloadConfig::default();
    config.base.duration_secs = 3;
    config.base.max_concurrent = 3;
    let result = run_large_payload_test_with_config(&factory, config)
        .await
        .expect("the scenario runs");
    assert!(result.completed > 0);
    assert!(
        (result.success_rate() - 100.0).abs() < f64::EPSILON,
        "{result:?}"
    );
    factory.0.stop().await;
}
