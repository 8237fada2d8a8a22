//! What operators change: rewinds, forks and restarts of instances, and dead letters of the outbox.

use cdb_model::Stored;
use duroxide::providers::ProviderError;

use crate::error::InOperation as _;
use crate::operate::dead_letters;
use crate::operate::pause::{self, TreeScope};
use crate::operate::rewind::{self, Fork, Restart, RewindResult};
use crate::provider::CosmosDBProvider;
use crate::stored::documents::OutboxIntent;

impl CosmosDBProvider {
    /// Continues a failed instance from before its failure, in a new execution. Failed activities
    /// run again, completed ones keep their results, and failed children are rewound too. The failed
    /// execution stays readable.
    ///
    /// May be repeated after an interruption. docs/replay.md says what counts as the failure. `by` is
    /// the operator, for the record.
    ///
    /// # Errors
    /// Fails when the instance has not failed or is a sub-orchestration, when a child that it waits
    /// for is still running for the failed execution or was deleted after its failure, or when its
    /// history, or the errors that tell the cause, cannot be read. An instance that a runtime holds
    /// is a retryable error.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let emulator = cdb_emulator::Emulator::start().await?;
    /// # let store = cdb_provider::CosmosDBProvider::new(&emulator.endpoint(), emulator.key(), "duroxide").await?;
    /// let refused = store.rewind("order-7", "ada").await.unwrap_err();
    /// assert!(refused.message.contains("instance order-7 not found"));
    /// # Ok(()) }
    /// ```
    pub async fn rewind(&self, instance: &str, by: &str) -> Result<RewindResult, ProviderError> {
        let rewound = rewind::rewind(&self.services, instance, Some(by));
        rewound.await.in_operation("rewind")
    }

    /// Returns what [`rewind`](Self::rewind) would do. Writes nothing.
    ///
    /// # Errors
    /// As [`rewind`](Self::rewind).
    pub async fn plan_rewind(&self, instance: &str) -> Result<RewindResult, ProviderError> {
        let planned = rewind::rewind(&self.services, instance, None);
        planned.await.in_operation("plan_rewind")
    }

    /// Creates an instance that continues from the history of another one, with the key-values from
    /// before the forked execution. Activities and timers that the kept events wait for start again;
    /// events and queued messages that arrived later have to be raised again.
    ///
    /// # Errors
    /// Fails when the instance has no such execution or event, when the new instance exists, or when
    /// the kept events wait for a child: the child belongs to the first instance.
    pub async fn fork(
        &self,
        instance: &str,
        at: Fork<'_>,
        by: &str,
    ) -> Result<RewindResult, ProviderError> {
        let forked = rewind::fork(&self.services, instance, at, Some(by));
        forked.await.in_operation("fork")
    }

    /// Returns what [`fork`](Self::fork) would do. Writes nothing.
    ///
    /// # Errors
    /// As [`fork`](Self::fork).
    pub async fn plan_fork(
        &self,
        instance: &str,
        at: Fork<'_>,
    ) -> Result<RewindResult, ProviderError> {
        let planned = rewind::fork(&self.services, instance, at, None);
        planned.await.in_operation("plan_fork")
    }

    /// Starts the orchestration of an ended instance again, as a new instance without a parent. The
    /// ended instance stays. The new one records `by`, the operator.
    ///
    /// # Errors
    /// Fails when the instance does not exist or is running, when the new instance exists, or when
    /// the input was deleted together with the first execution.
    pub async fn restart(
        &self,
        instance: &str,
        restart: Restart,
        by: &str,
    ) -> Result<(), ProviderError> {
        let restarted = rewind::restart(&self.services, instance, restart, by);
        restarted.await.in_operation("restart")
    }

    /// Pauses a running instance: until it is resumed, no turn and no activity of it starts. Messages
    /// and timers wait, and running activities go on. Returns the instances that were not paused
    /// before. `by` is the operator, for the record. An instance that was started and has not begun is
    /// paused too.
    ///
    /// Sub-orchestrations are instances of their own; [`TreeScope::Tree`] pauses those that the
    /// instance waits for, too. May be repeated after an interruption.
    ///
    /// From the first pause on, the container has schema version 3, as with a
    /// [limit](Self::set_limit).
    ///
    /// # Errors
    /// Fails when the instance does not exist or has ended. An instance that a runtime holds for
    /// 10 s is a retryable error.
    ///
    /// ```
    /// use cdb_provider::TreeScope;
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let emulator = cdb_emulator::Emulator::start().await?;
    /// # let store = cdb_provider::CosmosDBProvider::new(&emulator.endpoint(), emulator.key(), "duroxide").await?;
    /// # let now = store.container().now();
    /// # use cdb_provider::documents::{Instance, Status};
    /// # use cdb_provider::model::Document as _;
    /// # let order = Instance { orchestration_name: "Order".to_owned(), status: Status::Running, history_documents: None, ..Instance::pending("order-7", now) };
    /// # store.container().run(order.create()).await?;
    /// assert_eq!(store.pause("order-7", TreeScope::Tree, "ada").await?, ["order-7"]);
    /// assert_eq!(store.resume("order-7", TreeScope::Tree).await?, ["order-7"]);
    /// # Ok(()) }
    /// ```
    pub async fn pause(
        &self,
        instance: &str,
        scope: TreeScope,
        by: &str,
    ) -> Result<Vec<String>, ProviderError> {
        let paused = pause::pause(&self.services, instance, scope, by);
        paused.await.in_operation("pause")
    }

    /// Resumes a paused instance. What was due during the pause is due at once, in its order.
    /// Returns the instances that were paused.
    ///
    /// # Errors
    /// Fails when the instance does not exist. After an interruption it is still paused; resume it
    /// again.
    pub async fn resume(
        &self,
        instance: &str,
        scope: TreeScope,
    ) -> Result<Vec<String>, ProviderError> {
        let resumed = pause::resume(&self.services, instance, scope);
        resumed.await.in_operation("resume")
    }

    /// Returns up to `most` dead letters: messages between instances whose delivery was refused too
    /// often, or whose commit is so old that a redelivery could repeat them. `failure` holds the
    /// reason. A dead letter stays until
    /// [`deliver_again`](Self::deliver_again) or [`discard`](Self::discard), or until its instance
    /// is deleted.
    ///
    /// # Errors
    /// Fails when the query fails.
    pub async fn undeliverable(
        &self,
        most: u32,
    ) -> Result<Vec<Stored<OutboxIntent>>, ProviderError> {
        let found = dead_letters::list(&self.services.store, most);
        found.await.in_operation("undeliverable")
    }

    /// Redelivers a dead letter as a new message. Messages that have arrived within the last day
    /// are not delivered twice.
    ///
    /// # Errors
    /// Fails when another operator has redelivered or discarded the dead letter, or the service
    /// refuses. After a lost answer it also fails when the dead letter is gone: then it was
    /// delivered, or another operator has discarded it.
    pub async fn deliver_again(
        &self,
        dead_letter: &Stored<OutboxIntent>,
    ) -> Result<(), ProviderError> {
        let redelivered = dead_letters::redeliver(&self.services.store, dead_letter);
        redelivered.await.in_operation("deliver_again")
    }

    /// Discards a dead letter. Instances that wait for its messages continue to wait, such as a
    /// child that is never started, or the parent of an ended child; cancel or delete those
    /// instances. Chunks in the partition of a target are deleted with the target, because some
    /// messages may have arrived.
    ///
    /// # Errors
    /// Fails when the dead letter has changed since it was read, or the service refuses.
    pub async fn discard(&self, dead_letter: &Stored<OutboxIntent>) -> Result<(), ProviderError> {
        let discarded = dead_letters::discard(&self.services.store, dead_letter);
        discarded.await.in_operation("discard")
    }
}
