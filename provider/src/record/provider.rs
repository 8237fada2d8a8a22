//! The decorator of a provider.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use duroxide::providers::{
    DispatcherCapabilityFilter, ExecutionMetadata, OrchestrationItem, Provider, ProviderAdmin,
    ProviderError, ScheduledActivityIdentifier, SessionFetchConfig, TagFilter, WorkItem,
};
use duroxide::{Event, SystemStats};
use serde::Serialize;

use super::file::{Outcome, Recorder};
use super::text::{EMPTY, hash};

type Answer<T> = Result<T, ProviderError>;

/// A provider whose calls are recorded. Sessions, status texts, key-value reads, statistics and lists
/// pass unrecorded.
pub struct Recorded<P: Provider + ?Sized> {
    inner: Arc<P>,
    recorder: Recorder,
}

impl<P: Provider + ?Sized> fmt::Debug for Recorded<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorded")
            .field("inner", &self.inner.name())
            .field("recorder", &self.recorder)
            .finish()
    }
}

/// A history: its length, a hash over its events, and the last event.
#[derive(Serialize)]
pub(super) struct Digest<'a> {
    events: usize,
    hash: String,
    last: Option<&'a Event>,
}

#[derive(Serialize)]
struct Hashed<'a> {
    hash: String,
    #[serde(flatten)]
    event: &'a Event,
}

#[derive(Serialize)]
struct Turn<'a> {
    token: &'a str,
    instance: &'a str,
    execution_id: u64,
    damaged: bool,
    history: Digest<'a>,
    messages: &'a [WorkItem],
}

#[derive(Serialize)]
struct Commit<'a> {
    token: &'a str,
    execution_id: u64,
    events: Vec<Hashed<'a>>,
    activities: &'a [WorkItem],
    messages: &'a [WorkItem],
}

#[derive(Serialize)]
struct Token<'a> {
    token: &'a str,
}

#[derive(Serialize)]
struct End<'a> {
    token: &'a str,
    completion: Option<&'a WorkItem>,
}

#[derive(Serialize)]
struct Item<'a> {
    item: &'a WorkItem,
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<&'a str>,
}

#[derive(Serialize)]
pub(super) struct Instance<'a> {
    pub(super) instance: &'a str,
    pub(super) execution_id: Option<u64>,
}

fn event_hash(event: &Event) -> u64 {
    let json = serde_json::to_vec(event);
    hash(EMPTY, &json.unwrap_or_default())
}

impl<'a> Digest<'a> {
    #[expect(clippy::ptr_arg, reason = "the signature of a recorded result")]
    pub(super) fn of(history: &'a Vec<Event>) -> Self {
        let hashes = history.iter().map(event_hash);
        let hash = hashes.fold(EMPTY, |all, one| {
            hash(all, format!("{one:016x}").as_bytes())
        });
        Self {
            events: history.len(),
            hash: format!("{hash:016x}"),
            last: history.last(),
        }
    }
}

/// A recorded call without an answer.
pub(super) struct Open<'a> {
    recorder: &'a Recorder,
    call: Option<u64>,
}

impl Open<'_> {
    pub(super) fn end(mut self, answer: Result<impl Serialize, &ProviderError>) {
        let Some(call) = self.call.take() else { return };
        match answer {
            Ok(result) => self.recorder.answer(call, Outcome::Ok, Some(result), None),
            Err(error) => {
                let outcome = if error.is_retryable() {
                    Outcome::Unknown
                } else {
                    Outcome::Definite
                };
                let text = Some(&*error.message);
                self.recorder.answer(call, outcome, None::<()>, text);
            }
        }
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        if let Some(call) = self.call {
            let recorder = self.recorder;
            recorder.answer(call, Outcome::None, None::<()>, None);
        }
    }
}

impl<P: Provider + ?Sized> Recorded<P> {
    /// Records the calls of a provider.
    pub fn new(inner: Arc<P>, recorder: &Recorder) -> Self {
        Self {
            inner,
            recorder: recorder.clone(),
        }
    }

    /// Returns the provider itself.
    pub fn inner(&self) -> &Arc<P> {
        &self.inner
    }

    pub(super) fn admin(&self) -> &dyn ProviderAdmin {
        let admin = self.inner.as_management_capability();
        admin.expect("the decorator has the capability of its provider")
    }

    pub(super) fn open(&self, op: &str, args: impl Serialize) -> Open<'_> {
        Open {
            call: Some(self.recorder.call(op, &args)),
            recorder: &self.recorder,
        }
    }

    /// Records a call without a result.
    async fn plain(
        &self,
        op: &str,
        args: impl Serialize,
        called: impl Future<Output = Answer<()>>,
    ) -> Answer<()> {
        let open = self.open(op, args);
        let answer = called.await;
        open.end(answer.as_ref());
        answer
    }

    async fn history(
        &self,
        op: &str,
        args: Instance<'_>,
        called: impl Future<Output = Answer<Vec<Event>>>,
    ) -> Answer<Vec<Event>> {
        let open = self.open(op, args);
        let answer = called.await;
        open.end(answer.as_ref().map(Digest::of));
        answer
    }
}

#[async_trait]
impl<P: Provider + ?Sized> Provider for Recorded<P> {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn version(&self) -> &str {
        self.inner.version()
    }

    async fn fetch_orchestration_item(
        &self,
        lock: Duration,
        poll: Duration,
        filter: Option<&DispatcherCapabilityFilter>,
    ) -> Answer<Option<(OrchestrationItem, String, u32)>> {
        let open = self.open("fetch_orchestration_item", ());
        let fetched = self.inner.fetch_orchestration_item(lock, poll, filter);
        let answer = fetched.await;
        open.end(answer.as_ref().map(|found| {
            found.as_ref().map(|(item, token, _)| Turn {
                token,
                instance: &item.instance,
                execution_id: item.execution_id,
                damaged: item.history_error.is_some(),
                history: Digest::of(&item.history),
                messages: &item.messages,
            })
        }));
        answer
    }

    async fn ack_orchestration_item(
        &self,
        token: &str,
        execution_id: u64,
        events: Vec<Event>,
        activities: Vec<WorkItem>,
        messages: Vec<WorkItem>,
        metadata: ExecutionMetadata,
        cancelled: Vec<ScheduledActivityIdentifier>,
    ) -> Answer<()> {
        let hashed = |event| Hashed {
            hash: format!("{:016x}", event_hash(event)),
            event,
        };
        let commit = Commit {
            token,
            execution_id,
            events: events.iter().map(hashed).collect(),
            activities: &activities,
            messages: &messages,
        };
        let open = self.open("ack_orchestration_item", commit);
        let called = self.inner.ack_orchestration_item(
            token,
            execution_id,
            events,
            activities,
            messages,
            metadata,
            cancelled,
        );
        let answer = called.await;
        open.end(answer.as_ref());
        answer
    }

    async fn abandon_orchestration_item(
        &self,
        token: &str,
        delay: Option<Duration>,
        ignore_attempt: bool,
    ) -> Answer<()> {
        let called = self
            .inner
            .abandon_orchestration_item(token, delay, ignore_attempt);
        self.plain("abandon_orchestration_item", Token { token }, called)
            .await
    }

    async fn read(&self, instance: &str) -> Answer<Vec<Event>> {
        let args = Instance {
            instance,
            execution_id: None,
        };
        self.history("read", args, self.inner.read(instance)).await
    }

    async fn read_with_execution(&self, instance: &str, execution: u64) -> Answer<Vec<Event>> {
        let args = Instance {
            instance,
            execution_id: Some(execution),
        };
        let called = self.inner.read_with_execution(instance, execution);
        self.history("read", args, called).await
    }

    async fn append_with_execution(
        &self,
        instance: &str,
        execution: u64,
        events: Vec<Event>,
    ) -> Answer<()> {
        let args = Instance {
            instance,
            execution_id: Some(execution),
        };
        let called = self
            .inner
            .append_with_execution(instance, execution, events);
        self.plain("append_with_execution", args, called).await
    }

    async fn enqueue_for_worker(&self, item: WorkItem) -> Answer<()> {
        let called = self.inner.enqueue_for_worker(item.clone());
        self.plain(
            "enqueue_for_worker",
            Item {
                item: &item,
                token: None,
            },
            called,
        )
        .await
    }

    async fn fetch_work_item(
        &self,
        lock: Duration,
        poll: Duration,
        session: Option<&SessionFetchConfig>,
        tags: &TagFilter,
    ) -> Answer<Option<(WorkItem, String, u32)>> {
        let open = self.open("fetch_work_item", ());
        let answer = self.inner.fetch_work_item(lock, poll, session, tags).await;
        open.end(answer.as_ref().map(|found| {
            let found = found.as_ref();
            found.map(|(item, token, _)| Item {
                item,
                token: Some(token),
            })
        }));
        answer
    }

    async fn ack_work_item(&self, token: &str, completion: Option<WorkItem>) -> Answer<()> {
        let called = self.inner.ack_work_item(token, completion.clone());
        let completion = completion.as_ref();
        self.plain("ack_work_item", End { token, completion }, called)
            .await
    }

    async fn renew_work_item_lock(&self, token: &str, by: Duration) -> Answer<()> {
        let called = self.inner.renew_work_item_lock(token, by);
        self.plain("renew_work_item_lock", Token { token }, called)
            .await
    }

    async fn renew_session_lock(
        &self,
        own: &[&str],
        by: Duration,
        idle: Duration,
    ) -> Answer<usize> {
        self.inner.renew_session_lock(own, by, idle).await
    }

    async fn cleanup_orphaned_sessions(&self, idle: Duration) -> Answer<usize> {
        self.inner.cleanup_orphaned_sessions(idle).await
    }

    async fn abandon_work_item(
        &self,
        token: &str,
        delay: Option<Duration>,
        ignore_attempt: bool,
    ) -> Answer<()> {
        let called = self.inner.abandon_work_item(token, delay, ignore_attempt);
        self.plain("abandon_work_item", Token { token }, called)
            .await
    }

    async fn renew_orchestration_item_lock(&self, token: &str, by: Duration) -> Answer<()> {
        let called = self.inner.renew_orchestration_item_lock(token, by);
        self.plain("renew_orchestration_item_lock", Token { token }, called)
            .await
    }

    async fn enqueue_for_orchestrator(
        &self,
        item: WorkItem,
        delay: Option<Duration>,
    ) -> Answer<()> {
        let called = self.inner.enqueue_for_orchestrator(item.clone(), delay);
        self.plain(
            "enqueue_for_orchestrator",
            Item {
                item: &item,
                token: None,
            },
            called,
        )
        .await
    }

    fn as_management_capability(&self) -> Option<&dyn ProviderAdmin> {
        let admin = self.inner.as_management_capability();
        admin.map(|_| self as &dyn ProviderAdmin)
    }

    async fn get_custom_status(
        &self,
        instance: &str,
        seen: u64,
    ) -> Answer<Option<(Option<String>, u64)>> {
        self.inner.get_custom_status(instance, seen).await
    }

    async fn get_kv_value(&self, instance: &str, key: &str) -> Answer<Option<String>> {
        self.inner.get_kv_value(instance, key).await
    }

    async fn get_kv_all_values(&self, instance: &str) -> Answer<HashMap<String, String>> {
        self.inner.get_kv_all_values(instance).await
    }

    async fn get_instance_stats(&self, instance: &str) -> Answer<Option<SystemStats>> {
        self.inner.get_instance_stats(instance).await
    }
}
