//! Implements duroxide's `ProviderAdmin`, one call per method.

use async_trait::async_trait;
use duroxide::Event;
use duroxide::providers::{
    DeleteInstanceResult, ExecutionInfo, InstanceFilter, InstanceInfo, InstanceTree, ProviderAdmin,
    ProviderError, PruneOptions, PruneResult, QueueDepths, SystemMetrics,
};

use crate::error::InOperation as _;
use crate::operate::admin::{delete, executions, instances, prune};
use crate::provider::CosmosDBProvider;
use crate::stored::history;

/// The result of a call of the runtime.
type Result<T> = std::result::Result<T, ProviderError>;

#[async_trait]
impl ProviderAdmin for CosmosDBProvider {
    async fn list_instances(&self) -> Result<Vec<String>> {
        let answer = instances::list(self.container());
        answer.await.in_operation("list_instances")
    }

    async fn list_instances_by_status(&self, status: &str) -> Result<Vec<String>> {
        let answer = instances::list_by_status(self.container(), status);
        answer.await.in_operation("list_instances_by_status")
    }

    async fn list_executions(&self, instance: &str) -> Result<Vec<u64>> {
        let answer = executions::list(self.container(), instance);
        answer.await.in_operation("list_executions")
    }

    async fn read_history_with_execution_id(
        &self,
        instance: &str,
        execution_id: u64,
    ) -> Result<Vec<Event>> {
        let answer = history::read_execution(self.container(), instance, execution_id);
        self.decoded(answer.await)
            .in_operation("read_history_with_execution_id")
    }

    async fn read_history(&self, instance: &str) -> Result<Vec<Event>> {
        let guess = self.services.instances().newest_execution(instance);
        let answer = history::read_latest(self.container(), instance, guess);
        self.decoded(answer.await).in_operation("read_history")
    }

    async fn latest_execution_id(&self, instance: &str) -> Result<u64> {
        let answer = executions::latest(self.container(), instance);
        answer.await.in_operation("latest_execution_id")
    }

    async fn get_instance_info(&self, instance: &str) -> Result<InstanceInfo> {
        let info = instances::info(self.container(), instance);
        let mut info = info.await.in_operation("get_instance_info")?;
        let output = self.payloads().decode_option(info.output);
        info.output = output.in_operation("get_instance_info")?;
        Ok(info)
    }

    async fn get_execution_info(&self, instance: &str, execution_id: u64) -> Result<ExecutionInfo> {
        let info = executions::info(self.container(), instance, execution_id);
        let mut info = info.await.in_operation("get_execution_info")?;
        let output = self.payloads().decode_option(info.output);
        info.output = output.in_operation("get_execution_info")?;
        Ok(info)
    }

    async fn get_system_metrics(&self) -> Result<SystemMetrics> {
        let answer = self.metrics.system(self.container());
        answer.await.in_operation("get_system_metrics")
    }

    async fn get_queue_depths(&self) -> Result<QueueDepths> {
        let answer = self.metrics.queue_depths(self.container());
        answer.await.in_operation("get_queue_depths")
    }

    async fn list_children(&self, instance_id: &str) -> Result<Vec<String>> {
        let answer = instances::children(self.container(), instance_id);
        answer.await.in_operation("list_children")
    }

    async fn get_instance_tree(&self, instance_id: &str) -> Result<InstanceTree> {
        let tree = instances::tree(self.container(), instance_id);
        Ok(InstanceTree {
            root_id: instance_id.to_owned(),
            all_ids: tree.await.in_operation("get_instance_tree")?,
        })
    }

    async fn get_parent_id(&self, instance_id: &str) -> Result<Option<String>> {
        let instance = instances::existing(self.container(), instance_id);
        let instance = instance.await.in_operation("get_parent_id")?;
        Ok(instance.parent_instance_id)
    }

    async fn delete_instances_atomic(
        &self,
        ids: &[String],
        force: bool,
    ) -> Result<DeleteInstanceResult> {
        let answer = delete::delete(&self.services, ids, force);
        answer.await.in_operation("delete_instances_atomic")
    }

    async fn delete_instance(
        &self,
        instance_id: &str,
        force: bool,
    ) -> Result<DeleteInstanceResult> {
        let answer = delete::delete_tree(&self.services, instance_id, force);
        answer.await.in_operation("delete_instance")
    }

    async fn delete_instance_bulk(&self, filter: InstanceFilter) -> Result<DeleteInstanceResult> {
        let answer = delete::delete_bulk(&self.services, &filter);
        answer.await.in_operation("delete_instance_bulk")
    }

    async fn prune_executions(
        &self,
        instance_id: &str,
        options: PruneOptions,
    ) -> Result<PruneResult> {
        let answer = prune::prune(self.container(), instance_id, &options);
        answer.await.in_operation("prune_executions")
    }

    async fn prune_executions_bulk(
        &self,
        filter: InstanceFilter,
        options: PruneOptions,
    ) -> Result<PruneResult> {
        let answer = prune::prune_bulk(self.container(), &filter, &options);
        answer.await.in_operation("prune_executions_bulk")
    }
}
