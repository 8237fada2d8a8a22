//! The load of a large partition never occupies a dispatcher for as long as another runtime advances
//! the instance. Time is simulated.

use std::time::Duration;

use cdb_client::transport::HttpRequest;
use cdb_provider::CosmosDBProvider;
use cdb_provider::documents::{HistorySegment, Instance, InstanceKey, Status};
use cdb_provider::model::{Document as _, Patch, Timestamp};
use duroxide::providers::Provider as _;
use duroxide::{Event, EventKind};
use tokio::time::{sleep, timeout};

use crate::network::on_network;
use crate::several::{enqueue, event, start};

/// The default lock of a runtime.
const LOCK: Duration = Duration::from_secs(5);
/// How long each query of the large partition takes, and how often its instance changes meanwhile.
const QUERY: Duration = Duration::from_millis(300);
const CHANGE: Duration = Duration::from_millis(100);

/// Creates the running instance `busy`, whose history fills several pages.
async fn create_busy(provider: &CosmosDBProvider) {
    const SEGMENTS: u64 = 6;
    let container = provider.container();
    for id in 1..=SEGMENTS {
        let kind = EventKind::ExternalEvent {
            name: "Event".to_owned(),
            data: "x".repeat(900_000),
        };
        let event = Event::with_event_id(id, "busy", 1, None, kind);
        let segment = HistorySegment::pack("busy", 1, &[event]);
        let segment = segment.expect("it is JSON").expect("there is an event");
        ok!(container.run(segment.create()));
    }
    let instance = Instance {
        orchestration_name: "Wait".to_owned(),
        status: Status::Running,
        history_documents: Some(SEGMENTS),
        ..Instance::pending("busy", container.now())
    };
    ok!(container.run(instance.create()));
}

fn is_query_of_busy(request: &HttpRequest) -> bool {
    let header = |name| request.headers.get(name);
    header("x-ms-documentdb-isquery").is_some()
        && header("x-ms-documentdb-partitionkey").is_some_and(|key| key == "[\"busy\"]")
}

/// Changes the instance `busy` all the time, while a runtime with one dispatcher finds a message for
/// it. Another instance is handed out in time.
async fn another_instance_is_handed_out(change: fn(Timestamp) -> Patch<Instance>) {
    let (backend, network, runtime) = or_skip!(on_network().await);
    let other = backend.provider().await;
    create_busy(&other).await;
    network.slow_down(is_query_of_busy, QUERY);
    let advance = async {
        let key = InstanceKey::new("busy");
        loop {
            let change = change(other.container().now());
            ok!(other.container().run(change.at(&key)));
            sleep(CHANGE).await;
        }
    };
    let dispatch = async {
        enqueue(&other, event("busy")).await;
        let late = async {
            sleep(Duration::from_secs(2)).await;
            enqueue(&other, start("other")).await;
        };
        let dispatcher = async {
            loop {
                let fetched = runtime.fetch_orchestration_item(LOCK, LOCK, None).await;
                // duroxide logs the error, and fetches again.
                if let Ok(Some((item, ..))) = fetched {
                    return item.instance;
                }
            }
        };
        tokio::join!(late, dispatcher).1
    };
    let found = async {
        tokio::select! {
            found = dispatch => found,
            () = advance => unreachable!("it never ends"),
        }
    };
    let found = timeout(Duration::from_secs(12), found).await;
    assert_eq!(found.expect("the dispatcher is occupied"), "other");
    backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_large_instance_that_another_runtime_holds_does_not_occupy_a_dispatcher() {
    another_instance_is_handed_out(|now| {
        Patch::new()
            .set(Instance::LOCK_TOKEN, Some("theirs".to_owned()))
            .set(Instance::LOCKED_UNTIL, Some(now + LOCK))
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_large_instance_that_keeps_changing_does_not_occupy_a_dispatcher() {
    another_instance_is_handed_out(|now| Patch::new().set(Instance::UPDATED_AT, now)).await;
}
