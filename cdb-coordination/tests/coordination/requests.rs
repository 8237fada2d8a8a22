//! Repeated requests from outside: one effect, and the first answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::backend::Backend;
use cdb_client::transport::SimulatedTime;
use cdb_client::{Bootstrap, ContainerClient};
use cdb_coordination::outbox::OutboxError;
use cdb_coordination::{Message, MessageDocument, Messaging, Received};
use cdb_emulator::{Effect, Fault, OperationKind};
use cdb_model::{Container, Document};
use serde::{Deserialize, Serialize};

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{place}:order")]
struct Order {
    #[document(partition_key)]
    place: String,
}

#[derive(Container)]
enum Shop {
    Order(Order),
    Message(MessageDocument<Shop>),
}

#[derive(Serialize, Deserialize)]
struct Placed;

impl Message for Placed {
    const TYPE: &'static str = "placed";
}

async fn shop(backend: &Backend) -> ContainerClient<Shop> {
    let database = backend.database();
    let shop = database.bootstrap("shop", Bootstrap::CreateIfMissing);
    shop.await.expect("a container")
}

/// Creates the order and announces it, under a request id. Returns the answer.
async fn request(messaging: &Messaging<Shop>, id: &str, answer: u64) -> Result<u64, OutboxError> {
    let mut batch = messaging.batch("desk");
    let place = "desk".to_owned();
    batch.add(Order { place }.create())?;
    batch.send("warehouse", &Placed).expect("a small message");
    messaging.commit_once(batch, id, answer).await
}

#[tokio::test(start_paused = true)]
async fn a_repeated_request_gets_the_first_answer_and_takes_effect_once() {
    let backend = Backend::start(1, Some(SimulatedTime::new())).await;
    let emulator = or_skip!(&backend.emulator);
    let received = Arc::new(AtomicU32::new(0));
    let counted = received.clone();
    let messaging = Messaging::builder(shop(&backend).await)
        .on(move |_: Received<Placed>, batch| {
            counted.fetch_add(1, Ordering::Relaxed);
            async { Ok(batch) }
        })
        .start()
        .expect("the durations fit");
    emulator.inject(Fault::once(Effect::DropAnswer).on(OperationKind::Batch));
    let requests = (1..=5).map(|answer| request(&messaging, "r-1", answer));
    let answers = futures::future::try_join_all(requests).await;
    let answers = answers.expect("all requests are answered");
    let first = answers[0];
    assert_eq!(answers, [first; 5]);
    let again = request(&messaging, "r-1", 9).await;
    assert_eq!(again.expect("the first answer"), first);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(received.load(Ordering::Relaxed), 1, "one message is sent");
    // Another request conflicts with the order, and has no answer.
    let refused = request(&messaging, "r-2", 1).await;
    assert!(matches!(&refused, Err(OutboxError::Failed(error)) if error.is_conflict()));
    let none = messaging.answer::<u64>("desk", "r-2").await;
    assert_eq!(none.expect("a read"), None);
    let other_type = messaging.answer::<String>("desk", "r-1").await;
    assert!(matches!(other_type, Err(OutboxError::Answer(_))));
}

#[tokio::test(start_paused = true)]
async fn a_request_without_messages_gets_its_answer_after_a_lost_response() {
    let backend = Backend::start(1, Some(SimulatedTime::new())).await;
    let emulator = or_skip!(&backend.emulator);
    let messaging = Messaging::builder(shop(&backend).await)
        .start()
        .expect("the durations fit");
    emulator.inject(Fault::once(Effect::DropAnswer).on(OperationKind::Batch));
    for (partition, answer, first) in [("desk", 1, 1), ("desk", 2, 1), ("shelf", 3, 3)] {
        let batch = messaging.batch(partition);
        let answered = messaging.commit_once(batch, "r-1", answer).await;
        assert_eq!(answered.expect("an answer"), first);
    }
}
