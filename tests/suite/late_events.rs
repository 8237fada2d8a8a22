//! Queued events that arrive while their instance is read or locked.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use cdb_client::transport::HttpRequest;
use cdb_tests::Backend;
use duroxide::providers::Provider as _;
use duroxide::{Client, EventKind};
use tokio::time::sleep;

use crate::harness::next_turn;
use crate::network::{CREATE, Kind, Network, PATCH};
use crate::several::{ack_first_with, enqueue, start};

const SECOND: Duration = Duration::from_secs(1);

/// The request for the lock is slow. The older event is known only then.
#[tokio::test(start_paused = true)]
async fn an_event_that_a_locked_turn_takes_late_is_received_before_newer_ones() {
    const OLDER: Kind = |request| CREATE(request) && text(request).contains("older");
    let ms = Duration::from_millis;
    let backend = Backend::start_simulated().await;
    let network = Network::default();
    let Some(provider) = network.provider(&backend).await else {
        return;
    };
    let other = Client::new(Arc::new(backend.provider().await));
    let begun = other.start_orchestration("taker", "Rounds", "").await;
    begun.expect("it is started");
    network.slow_down(OLDER, ms(100));
    network.answer_late(LOCK, ms(300));
    let client = Client::new(Arc::new(provider.clone()));
    let send = async {
        let sent = client.enqueue_event("taker", "Orders", "older").await;
        sent.expect("it is queued");
    };
    let fetch = async {
        sleep(ms(40)).await;
        let queued = other.enqueue_event("taker", "Orders", "newer").await;
        queued.expect("it is queued");
        next_turn(&provider, SECOND * 5).await
    };
    let ((), (turn, _, _)) = tokio::join!(send, fetch);
    let received = format!("{:?}", turn.messages);
    let at = ["older", "newer"].map(|event| received.find(event));
    assert!(at[0].is_some() && at[0] < at[1], "{received}");
    drop(provider);
    backend.stop().await;
}

/// The older event is behind more messages than a load reads, so nothing in this process knows it.
#[tokio::test(start_paused = true)]
async fn an_event_that_arrives_late_does_not_pass_those_that_the_load_has_not_read() {
    const NEWER: Kind = |request| CREATE(request) && text(request).contains("newer");
    let ms = Duration::from_millis;
    let backend = Backend::start_simulated().await;
    let network = Network::default();
    let Some(provider) = network.provider(&backend).await else {
        return;
    };
    let other_provider = backend.provider().await;
    enqueue(&other_provider, start("taker")).await;
    let (item, token, _) = next_turn(&other_provider, SECOND * 5).await;
    let awaits = EventKind::QueueSubscribed {
        name: "Orders".to_owned(),
    };
    // The execution has room for a part of what the load finds.
    let delivered = |event: usize| EventKind::QueueEventDelivered {
        name: "Noise".to_owned(),
        data: event.to_string(),
    };
    let kinds = (0..30).map(delivered).chain([awaits]);
    ack_first_with(&other_provider, &item, &token, kinds).await;
    let other = Client::new(Arc::new(other_provider));
    for event in 0..MANY {
        let queued = other.enqueue_event("taker", "Noise", event.to_string());
        queued.await.expect("it is queued");
    }
    let queued = other.enqueue_event("taker", "Orders", "older").await;
    queued.expect("it is queued");
    network.slow_down(NEWER, ms(100));
    network.answer_late(PATCH, ms(300));
    let client = Client::new(Arc::new(provider.clone()));
    let send = async {
        let sent = client.enqueue_event("taker", "Orders", "newer").await;
        sent.expect("it is queued");
    };
    let fetch = async {
        sleep(ms(40)).await;
        next_turn(&provider, SECOND * 5).await
    };
    let ((), (turn, _, _)) = tokio::join!(send, fetch);
    let received = format!("{:?}", turn.messages);
    assert!(received.contains("Noise"), "{received}");
    assert!(
        received.contains("older") || !received.contains("newer"),
        "{received}"
    );
    drop(provider);
    backend.stop().await;
}

/// More messages than a page has. A load reads a part of them.
const MANY: usize = 1_100;

/// The lock of an instance that begins is its creation.
const LOCK: Kind = |request| CREATE(request) && text(request).contains(r#""type":"instance""#);

fn text(request: &HttpRequest) -> Cow<'_, str> {
    String::from_utf8_lossy(&request.body)
}

/// The first event is sent before the partition is read, and arrives after it.
#[tokio::test(start_paused = true)]
async fn an_event_that_overlaps_the_load_of_its_instance_is_received_before_later_ones() {
    const FIRST: Kind = |request| CREATE(request) && text(request).contains("first");
    let backend = Backend::start_simulated().await;
    let network = Network::default();
    let Some(provider) = network.provider(&backend).await else {
        return;
    };
    let other = Client::new(Arc::new(backend.provider().await));
    let begun = other.start_orchestration("taker", "Rounds", "").await;
    begun.expect("it is started");
    // An instance that begins with events is read.
    let earlier = other.enqueue_event("taker", "Orders", "earlier").await;
    earlier.expect("it is queued");
    network.slow_down(FIRST, Duration::from_millis(20));
    network.answer_late(LOCK, Duration::from_millis(200));
    let client = Client::new(Arc::new(provider.clone()));
    let send = async {
        for event in ["first", "second"] {
            let sent = client.enqueue_event("taker", "Orders", event).await;
            sent.expect("it is queued");
        }
    };
    let fetch = async {
        sleep(Duration::from_millis(5)).await;
        next_turn(&provider, SECOND * 5).await
    };
    let ((), (turn, token, _)) = tokio::join!(send, fetch);
    let received = format!("{:?}", turn.messages);
    assert!(received.contains("StartOrchestration"), "{received}");
    assert!(
        received.contains("first") || !received.contains("second"),
        "{received}"
    );
    let given_back = provider.abandon_orchestration_item(&token, None, true);
    given_back.await.expect("it is given back");
    let (turn, _, _) = next_turn(&provider, SECOND * 5).await;
    let received = format!("{:?}", turn.messages);
    let at = ["first", "second"].map(|event| received.find(event));
    assert!(at[0].is_some() && at[0] < at[1], "{received}");
    drop(provider);
    backend.stop().await;
}
