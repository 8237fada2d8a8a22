//! The calls of operators and of clients that look: reads of status and history, deletions.

use async_trait::async_trait;
use duroxide::Event;
use duroxide::providers::{
    DeleteInstanceResult, ExecutionInfo, InstanceFilter, InstanceInfo, InstanceTree, Provider,
    ProviderAdmin, ProviderError, PruneOptions, PruneResult, QueueDepths, SystemMetrics,
};
use serde::Serialize;

use super::provider::{Digest, Instance, Recorded};

type Answer<T> = Result<T, ProviderError>;

#[derive(Serialize)]
struct Info<'a> {
    status: &'a str,
    execution_id: u64,
    output: Option<&'a str>,
}

#[derive(Serialize)]
struct Deleted<'a> {
    /// The roots of the deleted trees. Absent if a filter chooses them.
    instances: Option<&'a [String]>,
}

impl<P: Provider + ?Sized> Recorded<P> {
    async fn deletion(
        &self,
        instances: Option<&[String]>,
        called: impl Future<Output = Answer<DeleteInstanceResult>>,
    ) -> Answer<DeleteInstanceResult> {
        let open = self.open("delete", Deleted { instances });
        let answer = called.await;
        open.end(answer.as_ref().map(|_| ()));
        answer
    }
}

#[async_trait]
impl<P: Provider + ?Sized> ProviderAdmin for Recorded<P> {
    async fn list_instances(&self) -> Answer<Vec<String>> {
        self.admin().list_instances().await
    }

    async fn list_instances_by_status(&self, status: &str) -> Answer<Vec<String>> {
        self.admin().list_instances_by_status(status).await
    }

    async fn list_executions(&self, instance: &str) -> Answer<Vec<u64>> {
        self.admin().list_executions(instance).await
    }

    async fn read_history_with_execution_id(&self, instance: &str, id: u64) -> Answer<Vec<Event>> {
        let args = Instance {
            instance,
            execution_id: Some(id),
        };
        let open = self.open("read", args);
        let answer = self
            .admin()
            .read_history_with_execution_id(instance, id)
            .await;
        open.end(answer.as_ref().map(Digest::of));
        answer
    }

    async fn read_history(&self, instance: &str) -> Answer<Vec<Event>> {
        let open = self.open(
            "read",
            Instance {
                instance,
                execution_id: None,
            },
        );
        let answer = self.admin().read_history(instance).await;
        open.end(answer.as_ref().map(Digest::of));
        answer
    }

    async fn latest_execution_id(&self, instance: &str) -> Answer<u64> {
        self.admin().latest_execution_id(instance).await
    }

    async fn get_instance_info(&self, instance: &str) -> Answer<InstanceInfo> {
        let args = Instance {
            instance,
            execution_id: None,
        };
        let open = self.open("get_instance_info", args);
        let answer = self.admin().get_instance_info(instance).await;
        open.end(answer.as_ref().map(|info| Info {
            status: &info.status,
            execution_id: info.current_execution_id,
            output: info.output.as_deref(),
        }));
        answer
    }

    async fn get_execution_info(&self, instance: &str, id: u64) -> Answer<ExecutionInfo> {
        self.admin().get_execution_info(instance, id).await
    }

    async fn get_system_metrics(&self) -> Answer<SystemMetrics> {
        self.admin().get_system_metrics().await
    }

    async fn get_queue_depths(&self) -> Answer<QueueDepths> {
        self.admin().get_queue_depths().await
    }

    async fn list_children(&self, instance: &str) -> Answer<Vec<String>> {
        self.admin().list_children(instance).await
    }

    async fn get_parent_id(&self, instance: &str) -> Answer<Option<String>> {
        self.admin().get_parent_id(instance).await
    }

    async fn delete_instances_atomic(
        &self,
        ids: &[String],
        force: bool,
    ) -> Answer<DeleteInstanceResult> {
        let called = self.admin().delete_instances_atomic(ids, force);
        self.deletion(Some(ids), called).await
    }

    async fn get_instance_tree(&self, instance: &str) -> Answer<InstanceTree> {
        self.admin().get_instance_tree(instance).await
    }

    async fn delete_instance(&self, instance: &str, force: bool) -> Answer<DeleteInstanceResult> {
        let called = self.admin().delete_instance(instance, force);
        self.deletion(Some(&[instance.to_owned()]), called).await
    }

    async fn delete_instance_bulk(&self, filter: InstanceFilter) -> Answer<DeleteInstanceResult> {
        let instances = filter.instance_ids.clone();
        let called = self.admin().delete_instance_bulk(filter);
        self.deletion(instances.as_deref(), called).await
    }

    async fn prune_executions(&self, instance: &str, it: PruneOptions) -> Answer<PruneResult> {
        self.admin().prune_executions(instance, it).await
    }

    async fn prune_executions_bulk(
        &self,
        filter: InstanceFilter,
        options: PruneOptions,
    ) -> Answer<PruneResult> {
        self.admin().prune_executions_bulk(filter, options).await
    }
}
