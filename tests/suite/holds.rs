//! Held instances: a deployment whose code does not replay them, or does not know them, fails none, and
//! a rollback continues all. Time is simulated.

use std::sync::Arc;
use std::time::Duration;

use cdb_emulator::{Emulator, OperationKind};
use cdb_provider::documents::{HoldCause, Instance, InstanceKey};
use cdb_provider::{CosmosDBProvider, Extent, OnNondeterminism};
use cdb_tests::Backend;
use duroxide::providers::{Provider, WorkItem};
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::runtime::{Runtime, RuntimeOptions};
use duroxide::{
    ActivityContext, AppErrorKind, Client, ConfigErrorKind, ErrorDetails, OrchestrationContext,
    OrchestrationRegistry, OrchestrationStatus,
};
use tokio::time::{Instant, sleep};

const SECOND: Duration = Duration::from_secs(1);

/// The longest backoff of a held instance.
const BACKOFF: Duration = Duration::from_secs(60);

/// The time after which a process without knowledge has found what is due: a poll of another's share.
const FOUND: Duration = Duration::from_secs(15);

/// Longer than all attempts of duroxide at an orchestration that is not registered.
const LONG: Duration = Duration::from_secs(400);

/// The code of a deployment.
#[derive(Clone, Copy)]
enum Code {
    Old,
    /// It reserves before it charges.
    Changed,
    /// It knows no orchestration.
    Empty,
}

impl Code {
    fn orchestrations(self) -> OrchestrationRegistry {
        let registry = OrchestrationRegistry::builder();
        if matches!(self, Self::Empty) {
            return registry.build();
        }
        registry
            .register(
                "Order",
                move |ctx: OrchestrationContext, cents: String| async move {
                    if matches!(self, Self::Changed) {
                        ctx.schedule_activity("Step", "reserve").await?;
                    }
                    ctx.schedule_activity("Step", format!("charge {cents}"))
                        .await?;
                    let ship = ctx.schedule_wait("ship").await;
                    ctx.schedule_activity("Step", ship).await
                },
            )
            .register(
                "Parent",
                move |ctx: OrchestrationContext, _: String| async move {
                    ctx.schedule_sub_orchestration_with_id("Order", "child", "5")
                        .await
                },
            )
            .build()
    }
}

/// A store, and a client that takes no work.
struct Shop {
    backend: Backend,
    provider: CosmosDBProvider,
    client: Client,
}

/// A process with a runtime and a provider of its own.
struct Process {
    provider: CosmosDBProvider,
    runtime: Arc<Runtime>,
}

impl Process {
    async fn stop(self) {
        self.runtime.shutdown(Some(1_000)).await;
        self.provider.shutdown(SECOND).await;
    }
}

impl Shop {
    async fn open() -> Self {
        let backend = Backend::start_simulated().await;
        let provider = backend.provider().await;
        Self {
            client: Client::new(Arc::new(provider.clone())),
            backend,
            provider,
        }
    }

    async fn deploy(&self, code: Code) -> Process {
        let provider = self.backend.provider().await;
        run(provider, code).await
    }

    /// Starts an order, and waits until it waits for its shipment.
    async fn order(&self, id: &str) {
        self.begin(id, "Order").await;
        self.until_charged(id).await;
    }

    async fn begin(&self, id: &str, orchestration: &str) {
        let started = self.client.start_orchestration(id, orchestration, "5");
        started.await.expect("it is started");
    }

    async fn until_charged(&self, id: &str) {
        let mut wait = crate::harness::Wait::begin();
        while self.provider.read(id).await.expect("a history").len() < 4 {
            assert!(!wait.is_over(), "{id} is never charged");
            sleep(SECOND / 10).await;
        }
    }

    async fn ship(&self, id: &str) {
        let raised = self.client.raise_event(id, "ship", format!("ship {id}"));
        raised.await.expect("it is raised");
    }

    async fn instance(&self, id: &str) -> Instance {
        let key = InstanceKey::new(id);
        let found = self.provider.container().read(&key).await;
        found.expect("it is read").expect("it exists").document
    }

    async fn until_held(&self, id: &str) -> Instance {
        let mut wait = crate::harness::Wait::begin();
        loop {
            let found = self.provider.container().read(&InstanceKey::new(id)).await;
            if let Some(found) = found.expect("it is read")
                && found.document.held.is_some()
            {
                return found.document;
            }
            assert!(!wait.is_over(), "{id} is never held");
            sleep(SECOND / 10).await;
        }
    }

    async fn status(&self, id: &str) -> OrchestrationStatus {
        let status = self.client.get_orchestration_status(id).await;
        status.expect("a status")
    }

    /// Waits for the end of an instance, at most this long.
    async fn end_within(&self, id: &str, time: Duration) -> Result<String, ErrorDetails> {
        let ended = self.client.wait_for_orchestration(id, time).await;
        match ended.unwrap_or_else(|error| panic!("{id} does not end in time: {error}")) {
            OrchestrationStatus::Completed { output, .. } => Ok(output),
            OrchestrationStatus::Failed { details, .. } => Err(details),
            other => panic!("{id} has not ended: {other:?}"),
        }
    }
}

async fn run(provider: CosmosDBProvider, code: Code) -> Process {
    let shared = Arc::new(provider.clone());
    let step = |_: ActivityContext, what: String| async move {
        sleep(SECOND / 10).await;
        Ok(what)
    };
    let activities = ActivityRegistry::builder().register("Step", step).build();
    let options = RuntimeOptions::default();
    let runtime =
        Runtime::start_with_options(shared, activities, code.orchestrations(), options).await;
    Process { provider, runtime }
}

#[tokio::test(start_paused = true)]
async fn a_changed_deployment_fails_no_instance_and_a_rollback_continues_all() {
    let shop = Shop::open().await;
    let old = shop.deploy(Code::Old).await;
    let ids = ["order-1", "order-2", "order-3", "order-4"];
    for id in ids {
        shop.order(id).await;
    }
    old.stop().await;
    let changed = shop.deploy(Code::Changed).await;
    for id in ids {
        shop.ship(id).await;
    }
    sleep(LONG).await;
    for id in ids {
        let status = shop.status(id).await;
        assert!(
            matches!(status, OrchestrationStatus::Running { .. }),
            "{id}: {status:?}"
        );
        let instance = shop.instance(id).await;
        let hold = instance.held.expect("it is held");
        assert_eq!(
            (hold.cause, hold.event),
            (HoldCause::Nondeterminism, Some(2))
        );
        assert_eq!(
            (&*hold.orchestration, hold.version.as_deref()),
            ("Order", Some("1.0.0"))
        );
        assert!(
            hold.by.contains(&std::process::id().to_string()),
            "{}",
            hold.by
        );
        assert!(instance.attempts.is_empty());
    }
    changed.stop().await;
    let _old = shop.deploy(Code::Old).await;
    for id in ids {
        assert_eq!(shop.end_within(id, FOUND).await, Ok(format!("ship {id}")));
        assert_eq!(shop.instance(id).await.held, None);
    }
    shop.backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_rollback_in_the_same_process_continues_within_the_backoff() {
    let shop = Shop::open().await;
    let process = shop.deploy(Code::Old).await;
    shop.order("order-1").await;
    process.runtime.shutdown(Some(1_000)).await;
    let changed = run(process.provider, Code::Changed).await;
    shop.ship("order-1").await;
    sleep(LONG).await;
    changed.runtime.shutdown(Some(1_000)).await;
    let _old = run(changed.provider, Code::Old).await;
    let output = shop.end_within("order-1", BACKOFF + SECOND).await;
    assert_eq!(output, Ok("ship order-1".to_owned()));
    shop.backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn with_half_of_the_deployment_changed_the_other_half_continues_all_instances() {
    let shop = Shop::open().await;
    let _old = shop.deploy(Code::Old).await;
    let ids: Vec<String> = (0..20).map(|number| format!("order-{number}")).collect();
    for id in &ids {
        shop.order(id).await;
    }
    let _changed = shop.deploy(Code::Changed).await;
    for id in &ids {
        shop.ship(id).await;
    }
    for id in &ids {
        let output = shop.end_within(id, BACKOFF).await;
        assert_eq!(output, Ok(format!("ship {id}")));
    }
    shop.backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_orchestration_that_no_runtime_knows_waits_for_one_that_knows_it() {
    let shop = Shop::open().await;
    let _empty = shop.deploy(Code::Empty).await;
    shop.begin("order-1", "Order").await;
    let instance = shop.until_held("order-1").await;
    let hold = instance.held.expect("it is held");
    assert_eq!(
        (hold.cause, &*hold.orchestration),
        (HoldCause::Unregistered, "Order")
    );
    sleep(LONG).await;
    let begun = Instant::now();
    let _old = shop.deploy(Code::Old).await;
    shop.until_charged("order-1").await;
    assert!(begun.elapsed() < FOUND, "{:?}", begun.elapsed());
    shop.ship("order-1").await;
    let output = shop.end_within("order-1", FOUND).await;
    assert_eq!(output, Ok("ship order-1".to_owned()));
    shop.backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_held_instance_costs_no_write_and_does_not_speed_up_the_polls() {
    let shop = Shop::open().await;
    let Some(emulator) = shop.backend.emulator() else {
        return;
    };
    let old = shop.deploy(Code::Old).await;
    shop.order("order-1").await;
    old.stop().await;
    let _changed = shop.deploy(Code::Changed).await;
    sleep(BACKOFF).await;
    let idle = requests(emulator, 2 * BACKOFF).await;
    shop.ship("order-1").await;
    shop.until_held("order-1").await;
    sleep(2 * BACKOFF).await;
    let held = requests(emulator, 2 * BACKOFF).await;
    assert_eq!(held.0, 0, "writes");
    // What is due and cannot run costs a poll after each probe, whatever the reason.
    assert!(held.1 < 2 * idle.1, "{} reads, idle: {}", held.1, idle.1);
    shop.backend.stop().await;
}

/// Returns the writes and the reads within a time.
async fn requests(emulator: &Emulator, time: Duration) -> (u64, u64) {
    emulator.reset_requests();
    sleep(time).await;
    let counts = emulator.requests().counts;
    let of = |kinds: &[OperationKind]| {
        let counts = kinds.iter().filter_map(|kind| counts.get(kind));
        counts.map(|count| u64::from(*count)).sum()
    };
    let writes = [
        OperationKind::Batch,
        OperationKind::Patch,
        OperationKind::Replace,
        OperationKind::Create,
        OperationKind::Delete,
    ];
    (
        of(&writes),
        of(&[OperationKind::Query, OperationKind::Read]),
    )
}

#[tokio::test(start_paused = true)]
async fn a_held_instance_keeps_what_arrives() {
    let shop = Shop::open().await;
    let old = shop.deploy(Code::Old).await;
    shop.begin("order-1", "Order").await;
    // The end of the activity is the first message that the changed code does not take.
    shop.until_activity("order-1").await;
    old.stop().await;
    let changed = shop.deploy(Code::Changed).await;
    shop.until_held("order-1").await;
    shop.ship("order-1").await;
    sleep(LONG).await;
    let paused = changed
        .provider
        .pause("order-1", Extent::Alone, "ada")
        .await;
    assert_eq!(paused.expect("it is paused"), ["order-1"]);
    changed.stop().await;
    let old = shop.deploy(Code::Old).await;
    sleep(BACKOFF).await;
    assert!(
        shop.instance("order-1").await.held.is_some(),
        "it is paused"
    );
    old.provider
        .resume("order-1", Extent::Alone)
        .await
        .expect("it is resumed");
    // duroxide drops an event that arrives before its wait. The next one arrives after it.
    shop.until_charged("order-1").await;
    shop.ship("order-1").await;
    let output = shop.end_within("order-1", FOUND).await;
    assert_eq!(output, Ok("ship order-1".to_owned()));
    shop.backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_held_instance_can_be_cancelled_behind_any_number_of_messages() {
    for code in [Code::Changed, Code::Empty] {
        let shop = Shop::open().await;
        let old = shop.deploy(Code::Old).await;
        shop.order("order-1").await;
        old.stop().await;
        let _next = shop.deploy(code).await;
        for _ in 0..100 {
            shop.ship("order-1").await;
        }
        shop.until_held("order-1").await;
        sleep(BACKOFF).await;
        cancel(&shop, "order-1").await;
        assert_cancelled(shop.end_within("order-1", 2 * FOUND).await);
        shop.backend.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_never_began_can_be_cancelled_while_it_is_held() {
    let shop = Shop::open().await;
    let _empty = shop.deploy(Code::Empty).await;
    shop.begin("order-1", "Order").await;
    shop.until_held("order-1").await;
    cancel(&shop, "order-1").await;
    assert_cancelled(shop.end_within("order-1", 2 * FOUND).await);
    let instance = shop.instance("order-1").await;
    assert_eq!(instance.orchestration_name, "Order");
    shop.backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_cancellation_of_a_held_child_reaches_its_parent_and_of_a_held_parent_its_child() {
    for cancelled in ["main", "child"] {
        let shop = Shop::open().await;
        let old = shop.deploy(Code::Old).await;
        shop.begin("main", "Parent").await;
        shop.until_charged("child").await;
        old.stop().await;
        let _empty = shop.deploy(Code::Empty).await;
        cancel(&shop, cancelled).await;
        assert_cancelled(shop.end_within(cancelled, BACKOFF).await);
        if cancelled == "main" {
            assert_cancelled(shop.end_within("child", BACKOFF).await);
        } else {
            // The parent is held too. A runtime that knows it gives it the failure of its child.
            let _old = shop.deploy(Code::Old).await;
            let failed = shop.end_within("main", 2 * FOUND).await;
            let error = failed
                .expect_err("its child was cancelled")
                .display_message();
            assert!(error.contains("canceled"), "{error}");
        }
        shop.backend.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_held_instance_can_be_deleted() {
    let shop = Shop::open().await;
    let old = shop.deploy(Code::Old).await;
    shop.order("order-1").await;
    old.stop().await;
    let _changed = shop.deploy(Code::Changed).await;
    shop.ship("order-1").await;
    shop.until_held("order-1").await;
    let deleted = shop.client.delete_instance("order-1", true).await;
    assert_eq!(deleted.expect("it is deleted").instances_deleted, 1);
    sleep(2 * BACKOFF).await;
    assert!(matches!(
        shop.status("order-1").await,
        OrchestrationStatus::NotFound
    ));
    shop.backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_instance_fails_with_the_nondeterminism_of_its_child() {
    let shop = Shop::open().await;
    let _old = shop.deploy(Code::Old).await;
    shop.begin("main", "Parent").await;
    shop.until_charged("child").await;
    let details = ErrorDetails::Configuration {
        kind: ConfigErrorKind::Nondeterminism,
        resource: String::new(),
        message: Some("a child of an older version".to_owned()),
    };
    let failed = WorkItem::SubOrchFailed {
        parent_instance: "main".to_owned(),
        parent_execution_id: 1,
        parent_id: 2,
        details: details.clone(),
    };
    let sent = shop.provider.enqueue_for_orchestrator(failed, None).await;
    sent.expect("it is sent");
    assert_eq!(shop.end_within("main", FOUND).await, Err(details));
    shop.backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_message_that_no_code_can_take_fails_its_instance() {
    let shop = Shop::open().await;
    let _old = shop.deploy(Code::Old).await;
    shop.order("order-1").await;
    let unknown = WorkItem::ActivityCompleted {
        instance: "order-1".to_owned(),
        execution_id: 1,
        id: 77,
        result: String::new(),
    };
    let sent = shop.provider.enqueue_for_orchestrator(unknown, None).await;
    sent.expect("it is sent");
    let failed = shop
        .end_within("order-1", FOUND)
        .await
        .expect_err("no code can take it");
    assert!(
        failed.display_message().contains("no matching schedule"),
        "{failed:?}"
    );
    shop.backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_is_told_to_fail_fails_the_instance_at_once() {
    let shop = Shop::open().await;
    let old = shop.deploy(Code::Old).await;
    shop.order("order-1").await;
    old.stop().await;
    let fail = shop.backend.provider_with(|config| {
        config.on_nondeterminism = OnNondeterminism::Fail;
    });
    let _changed = run(fail.await, Code::Changed).await;
    shop.ship("order-1").await;
    let failed = shop.end_within("order-1", FOUND).await;
    let failed = failed.expect_err("the code differs");
    let kind = ConfigErrorKind::Nondeterminism;
    assert!(matches!(failed, ErrorDetails::Configuration { kind: found, .. } if found == kind));
    shop.backend.stop().await;
}

async fn cancel(shop: &Shop, id: &str) {
    let cancelled = shop.client.cancel_instance(id, "changed my mind").await;
    cancelled.expect("it is sent");
}

fn assert_cancelled(ended: Result<String, ErrorDetails>) {
    let details = ended.expect_err("it is cancelled");
    let kind = match &details {
        ErrorDetails::Application { kind, .. } => Some(kind),
        _ => None,
    };
    assert!(
        matches!(kind, Some(AppErrorKind::Cancelled { .. })),
        "{details:?}"
    );
}

impl Shop {
    /// Waits until the activity of an order has been scheduled.
    async fn until_activity(&self, id: &str) {
        let mut wait = crate::harness::Wait::begin();
        while self.provider.read(id).await.expect("a history").len() < 2 {
            assert!(!wait.is_over(), "{id} never begins");
            sleep(SECOND / 100).await;
        }
    }
}
