//! The defaults of all public configurations. A change of one is a change for every user, so it
//! belongs into the changelog. The provider has its own test.

use cdb_client::account::CosmosClientBuilder;
use cdb_client::database::BootstrapConfig;
use cdb_client::retry::RetryConfig;
use cdb_client::throughput::BackgroundConfig;
use cdb_coordination::change_feed::ChangeProcessorConfig;
use cdb_coordination::messaging::MessagingConfig;
use cdb_coordination::retry::RetryPolicy;
use cdb_emulator::Emulator;
use cdb_work::{IntervalConfig, RunConfig, WorkConfig};

#[test]
#[expect(clippy::too_many_lines, reason = "the values are one list")]
fn default_values() {
    let processor = ChangeProcessorConfig {
        member: "unique".to_owned(),
        ..ChangeProcessorConfig::default()
    };
    expect_test::expect![[r#"
        (
            (
                512,
                RetryConfig {
                    deadline: 30s,
                    opening_deadline: 80s,
                    attempt_timeout: 10s,
                    first_delay: 10ms,
                    longest_delay: 2s,
                },
                BackgroundConfig {
                    share: 0.8,
                    low_priority: true,
                    throughput_bucket: None,
                },
                BootstrapConfig {
                    mode: CreateIfMissing,
                    throughput: Unspecified,
                    on_difference: Warn,
                    several_write_regions: false,
                    index_timeout: 600s,
                },
            ),
            (
                RetryPolicy {
                    first_delay: 1s,
                    longest_delay: 300s,
                    max_attempts: 10,
                },
                ChangeProcessorConfig {
                    start: Beginning,
                    page_size: 100,
                    poll_interval: 1s,
                    lease: 30s,
                    retry: RetryPolicy {
                        first_delay: 1s,
                        longest_delay: 60s,
                        max_attempts: 10,
                    },
                    member: "unique",
                    heartbeat: 2s,
                },
                MessagingConfig {
                    retry: RetryPolicy {
                        first_delay: 1s,
                        longest_delay: 300s,
                        max_attempts: 10,
                    },
                    reserved: 2s,
                    claim: 30s,
                    poll_interval: 1s,
                    concurrency: 16,
                    retention: 604800s,
                },
            ),
            (
                WorkConfig {
                    name: "work",
                    partitions: Partitions(
                        32,
                    ),
                    max_partitions: 65535,
                    lease: 15s,
                    claim_timeout: 300s,
                    drain: 5s,
                    upkeep: 1s,
                    longest_pause: 1s,
                    sweep: 10s,
                    most_in_memory: 5000,
                    remember: 604800s,
                    forget: 3600s,
                    retry: RetryPolicy {
                        first_delay: 1s,
                        longest_delay: 300s,
                        max_attempts: 10,
                    },
                    exhausted: HoldStream,
                },
                IntervalConfig {
                    every: 200ms,
                    most_entries: 2000,
                    last_flush: 30s,
                },
                RunConfig {
                    concurrency: 32,
                    lane: None,
                    flush: IntervalConfig {
                        every: 100ms,
                        most_entries: 2000,
                        last_flush: 30s,
                    },
                },
            ),
            Settings {
                host: 127.0.0.1,
                port: 0,
                data_dir: None,
                key: "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==",
                physical_partitions: None,
                throughput: None,
                priority_based_execution: false,
                throughput_buckets: {},
                metadata_budget: None,
                consistency: Session,
                unique_key_answer: SubStatus,
                version_minutes: None,
                regions: [],
                multiple_write_locations: false,
                partition_failover: false,
                max_connections: 10000,
                tls: false,
                seed: None,
                latency: Fixed(
                    0ns,
                ),
                faults: [],
                index_build: Immediate,
                replica_lag: None,
                ignore_latest_committed: false,
                identities: Identities(
                    {},
                ),
                clock: None,
                limits: Limits {
                    idle: 300s,
                    stall: 60s,
                },
            },
        )
    "#]].assert_debug_eq(&(
        (
            CosmosClientBuilder::DEFAULT_MAX_CONNECTIONS,
            RetryConfig::default(),
            BackgroundConfig::default(),
            BootstrapConfig::default(),
        ),
        (
            RetryPolicy::default(),
            processor,
            MessagingConfig::default(),
        ),
        (
            WorkConfig::default(),
            IntervalConfig::default(),
            RunConfig::default(),
        ),
        Emulator::builder(),
    ));
}
