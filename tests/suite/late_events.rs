//! Queued events that arrive while their instance is read or locked.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use cdb_client::transport::HttpRequest;
use duroxide::providers::Provider as _;
use duroxide::{Client, EventKind};
use tokio::time::sleep;

use crate::harness::next_turn;
use crate::network::{CREATE, Kind, PATCH, on_network};
use crate::several::{ack_first_with, start, turn_with};

const SECOND: Duration = Duration::from_secs(1);

/// The request for the lock is slow. The older event is known only then.
#[tokio::test(start_paused = true)]
async fn an_event_that_a_locked_turn_takes_late_is_received_before_newer_ones() {
    const OLDER: Kind = |request| CREATE(request) && text(request).contains("older");
    let ms = Duration::from_millis;
    let (backend, network, provider) = or_skip!(on_network().await);
    let other = Client::new(Arc::new(backend.provider().await));
    ok!(other.start_orchestration("taker", "Rounds", ""));
    network.slow_down(OLDER, ms(100));
    network.answer_late(LOCK, ms(300));
    let client = Client::new(Arc::new(provider.clone()));
    let send = async {
        ok!(client.enqueue_event("taker", "Orders", "older"));
    };
    let fetch = async {
        sleep(ms(40)).await;
        ok!(other.enqueue_event("taker", "Orders", "newer"));
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
    let (backend, network, provider) = or_skip!(on_network().await);
    let other_provider = backend.provider().await;
    let (item, token, _) = turn_with(&other_provider, start("taker"), SECOND * 5).await;
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
        ok!(other.enqueue_event("taker", "Noise", event.to_string()));
    }
    ok!(other.enqueue_event("taker", "Orders", "older"));
    network.slow_down(NEWER, ms(100));
    network.answer_late(PATCH, ms(300));
    let client = Client::new(Arc::new(provider.clone()));
    let send = async {
        ok!(client.enqueue_event("taker", "Orders", "newer"));
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
    let (backend, network, provider) = or_skip!(on_network().await);
    let other = Client::new(Arc::new(backend.provider().await));
    ok!(other.start_orchestration("taker", "Rounds", ""));
    // An instance that begins with events is read.
    ok!(other.enqueue_event("taker", "Orders", "earlier"));
    network.slow_down(FIRST, Duration::from_millis(20));
    network.answer_late(LOCK, Duration::from_millis(200));
    let client = Client::new(Arc::new(provider.clone()));
    let send = async {
        for event in ["first", "second"] {
            ok!(client.enqueue_event("taker", "Orders", event));
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
    ok!(provider.abandon_orchestration_item(&token, None, true));
    let (turn, _, _) = next_turn(&provider, SECOND * 5).await;
    let received = format!("{:?}", turn.messages);
    let at = ["first", "second"].map(|event| received.find(event));
    assert!(at[0].is_some() && at[0] < at[1], "{received}");
    drop(provider);
    backend.stop().await;
}
