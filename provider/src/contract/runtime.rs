//! Implements duroxide's `Provider`, one call per method.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use async_trait::async_trait;
use duroxide::providers::{
    DispatcherCapabilityFilter, ExecutionMetadata, OrchestrationItem, Provider, ProviderAdmin,
    ProviderError, ScheduledActivityIdentifier, SessionFetchConfig, TagFilter, WorkItem,
};
use duroxide::{Event, SystemStats};
use tracing::Instrument as _;

use crate::activity;
use crate::delivery::enqueue;
use crate::error::InOperation as _;
use crate::operate::stats;
use crate::provider::CosmosDBProvider;
use crate::queue::instances::TurnResult;
use crate::stored::documents::target_instance;
use crate::stored::{custom_status, history, kv};
use crate::timing::LONGEST_TIMEOUT;
use crate::turn;

/// The result of a call of the runtime.
type Result<T> = std::result::Result<T, ProviderError>;

/// Limits a timeout to one year, so that its end is a time.
fn bounded(timeout: Duration) -> Duration {
    timeout.min(LONGEST_TIMEOUT)
}

#[async_trait]
impl Provider for CosmosDBProvider {
    fn name(&self) -> &'static str {
        "cdb"
    }

    fn version(&self) -> &'static str {
        env!("CARGO_PKG_VERSION")
    }

    async fn fetch_orchestration_item(
        &self,
        lock_timeout: Duration,
        poll_timeout: Duration,
        filter: Option<&DispatcherCapabilityFilter>,
    ) -> Result<Option<(OrchestrationItem, String, u32)>> {
        let poll_timeout = self.services.queues.poll_timeout(bounded(poll_timeout));
        let fetched = turn::fetch(&self.services, bounded(lock_timeout), poll_timeout, filter);
        let fetched = fetched.await.in_operation("fetch_orchestration_item")?;
        if let Some((item, token, attempt)) = &fetched {
            self.telemetry.turn_began(item, token, *attempt);
        }
        Ok(fetched)
    }

    async fn ack_orchestration_item(
        &self,
        lock_token: &str,
        execution_id: u64,
        history_delta: Vec<Event>,
        worker_items: Vec<WorkItem>,
        orchestrator_items: Vec<WorkItem>,
        metadata: ExecutionMetadata,
        cancelled_activities: Vec<ScheduledActivityIdentifier>,
    ) -> Result<()> {
        let result = TurnResult {
            execution_id,
            history_delta,
            worker_items,
            orchestrator_items,
            metadata,
            cancelled: cancelled_activities,
            restored: BTreeMap::new(),
        };
        let turns = &self.telemetry.turns;
        let committed = turn::commit(&self.services, lock_token, result)
            .instrument(turns.span(lock_token))
            .await;
        let outcome = committed.as_ref().map_or("lost", |ended| ended.outcome());
        let committed = committed.map(drop);
        turns.stored(lock_token, &committed, outcome);
        committed.in_operation("ack_orchestration_item")
    }

    async fn abandon_orchestration_item(
        &self,
        lock_token: &str,
        delay: Option<Duration>,
        ignore_attempt: bool,
    ) -> Result<()> {
        let turns = &self.telemetry.turns;
        let abandoned = turn::abandon(&self.services, lock_token, delay, ignore_attempt)
            .instrument(turns.span(lock_token))
            .await;
        let outcome = abandoned
            .as_ref()
            .map_or("abandoned", |ended| ended.outcome());
        turns.end(lock_token, outcome);
        let abandoned = abandoned.map(drop);
        abandoned.in_operation("abandon_orchestration_item")
    }

    async fn renew_orchestration_item_lock(&self, token: &str, extend_for: Duration) -> Result<()> {
        let answer = turn::renew(&self.services, token, bounded(extend_for));
        answer.await.in_operation("renew_orchestration_item_lock")
    }

    async fn read(&self, instance: &str) -> Result<Vec<Event>> {
        // A worker reads the history before each activity. The history cached by the commit that
        // scheduled the activity is sufficient, and the one that the fetch has read.
        if let Some(read) = self.services.activities().take_unread(instance)
            && let Some(events) = read
                .0
                .or_else(|| self.services.instances().history(instance))
        {
            return self.decoded(Ok(Vec::clone(&events))).in_operation("read");
        }
        let guess = self.services.instances().newest_execution(instance);
        let answer = history::read_latest(self.container(), instance, guess);
        self.decoded(answer.await).in_operation("read")
    }

    async fn read_with_execution(&self, instance: &str, execution_id: u64) -> Result<Vec<Event>> {
        let answer = history::read_execution(self.container(), instance, execution_id);
        self.decoded(answer.await)
            .in_operation("read_with_execution")
    }

    async fn append_with_execution(
        &self,
        instance: &str,
        execution_id: u64,
        new_events: Vec<Event>,
    ) -> Result<()> {
        let answer = history::append(&self.services.store, instance, execution_id, new_events);
        answer.await.in_operation("append_with_execution")
    }

    async fn enqueue_for_worker(&self, item: WorkItem) -> Result<()> {
        let answer = enqueue::activity(&self.services, item);
        answer.await.in_operation("enqueue_for_worker")
    }

    async fn fetch_work_item(
        &self,
        lock_timeout: Duration,
        poll_timeout: Duration,
        session: Option<&SessionFetchConfig>,
        tag_filter: &TagFilter,
    ) -> Result<Option<(WorkItem, String, u32)>> {
        let poll_timeout = self.services.queues.poll_timeout(bounded(poll_timeout));
        let services = &self.services;
        let lock_timeout = bounded(lock_timeout);
        let fetched = activity::fetch(services, lock_timeout, poll_timeout, session, tag_filter);
        let fetched = fetched.await.in_operation("fetch_work_item")?;
        if let Some((item, token, attempt)) = &fetched {
            self.telemetry.activity_began(item, token, *attempt);
        }
        Ok(fetched)
    }

    async fn ack_work_item(&self, token: &str, completion: Option<WorkItem>) -> Result<()> {
        let spans = &self.telemetry.activities;
        let stored = activity::ack(&self.services, token, completion)
            .instrument(spans.span(token))
            .await;
        spans.stored(token, &stored, "completed");
        stored.in_operation("ack_work_item")
    }

    async fn renew_work_item_lock(&self, token: &str, extend_for: Duration) -> Result<()> {
        let answer = activity::renew(&self.services, token, bounded(extend_for));
        answer.await.in_operation("renew_work_item_lock")
    }

    async fn abandon_work_item(
        &self,
        token: &str,
        delay: Option<Duration>,
        ignore_attempt: bool,
    ) -> Result<()> {
        let spans = &self.telemetry.activities;
        let abandoned = activity::abandon(&self.services, token, delay, ignore_attempt)
            .instrument(spans.span(token))
            .await;
        spans.end(token, "abandoned");
        abandoned.in_operation("abandon_work_item")
    }

    async fn renew_session_lock(
        &self,
        owner_ids: &[&str],
        extend_for: Duration,
        idle_timeout: Duration,
    ) -> Result<usize> {
        let sessions = &self.services.queues.sessions;
        let answer = sessions.renew(owner_ids, extend_for, idle_timeout);
        answer.await.in_operation("renew_session_lock")
    }

    async fn cleanup_orphaned_sessions(&self, _idle_timeout: Duration) -> Result<usize> {
        let answer = self.services.queues.sessions.cleanup();
        answer.await.in_operation("cleanup_orphaned_sessions")
    }

    async fn enqueue_for_orchestrator(
        &self,
        item: WorkItem,
        delay: Option<Duration>,
    ) -> Result<()> {
        let instance_id = target_instance(&item).to_owned();
        let enqueued = enqueue::message(&self.services, item, delay, None);
        let answer = self.services.ledger.charge(&instance_id, enqueued);
        answer.await.in_operation("enqueue_for_orchestrator")
    }

    fn as_management_capability(&self) -> Option<&dyn ProviderAdmin> {
        Some(self)
    }

    async fn get_custom_status(
        &self,
        instance: &str,
        last_seen_version: u64,
    ) -> Result<Option<(Option<String>, u64)>> {
        let answer = custom_status::read(self.container(), instance, last_seen_version);
        let decode = |(status, version)| {
            let status = self.payloads().decode_option(status)?;
            Ok((status, version))
        };
        let answer = answer.await.and_then(|found| found.map(decode).transpose());
        answer.in_operation("get_custom_status")
    }

    async fn get_kv_value(&self, instance: &str, key: &str) -> Result<Option<String>> {
        let answer = kv::read_value(self.container(), instance, key);
        let answer = answer
            .await
            .and_then(|value| self.payloads().decode_option(value));
        answer.in_operation("get_kv_value")
    }

    async fn get_kv_all_values(&self, instance: &str) -> Result<HashMap<String, String>> {
        let answer = kv::read_all(self.container(), instance);
        let answer = answer.await.and_then(|mut values| {
            self.payloads().decode_all(values.values_mut())?;
            Ok(values)
        });
        answer.in_operation("get_kv_all_values")
    }

    async fn get_instance_stats(&self, instance: &str) -> Result<Option<SystemStats>> {
        let answer = stats::read(&self.services.store, instance);
        answer.await.in_operation("get_instance_stats")
    }
}
