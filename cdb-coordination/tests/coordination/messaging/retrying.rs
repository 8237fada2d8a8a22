//! Messages that failed are listed with their error until they succeed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cdb_coordination::message::Side;
use cdb_coordination::messaging::RetryingMessage;
use cdb_coordination::{HandlerError, Messaging, Received};
use tokio::time::sleep;

use crate::messaging::house::{House, Note, TestEnv, note_down, send};

/// Waits until `count` messages of a half are retried.
async fn until_retrying(
    messaging: &Messaging<House>,
    side: Side,
    count: u64,
) -> Vec<RetryingMessage> {
    let retrying = messaging.retrying();
    for _ in 0..2_400 {
        if retrying.count(side).await.expect("a count") == count {
            let page = retrying.page(side, 10, None).await;
            return page.expect("a page").rows;
        }
        sleep(Duration::from_millis(50)).await;
    }
    panic!("never {count} messages");
}

#[tokio::test(start_paused = true)]
async fn a_message_is_listed_after_its_first_failure_and_gone_after_its_success() {
    let env = TestEnv::start(2).await;
    let is_fixed = Arc::new(AtomicBool::new(false));
    let fixed = is_fixed.clone();
    let messaging = env.messaging().on(move |note: Received<Note>, batch| {
        let fixed = fixed.load(Ordering::SeqCst);
        async move {
            match note.message {
                Note(1) if !fixed => Err(HandlerError::temporarily("no stock for note 1")),
                note => note_down(&note, batch),
            }
        }
    });
    let messaging = messaging.start().expect("the durations fit");
    send(&messaging, &["bob"], 1..3).await;
    let listed = until_retrying(&messaging, Side::Inbox, 1).await;
    let [message] = &*listed else {
        panic!("{listed:?}");
    };
    assert_eq!(message.attempts, 1, "{message:?}");
    assert_eq!(message.last_error.reason, "no stock for note 1");
    assert_eq!((&*message.message_type, message.id.number), ("note", 1));
    assert_eq!(message.to.to_string(), r#"house["bob"]"#);
    assert!(message.next_attempt > message.last_error.at, "{message:?}");
    assert!(message.blocks_stream());
    let retrying = messaging.retrying();
    let found = retrying.get(&message.partition, &message.name).await;
    let found = found.expect("a read").expect("it is retried");
    assert_eq!((&found.id, &*found.payload), (&message.id, "1"));
    assert_eq!(found.history.len(), 1, "{found:?}");
    assert!(env.noted().await.is_empty(), "the second note waits");
    is_fixed.store(true, Ordering::SeqCst);
    until_retrying(&messaging, Side::Inbox, 0).await;
    let found = retrying.get(&message.partition, &message.name).await;
    assert!(found.expect("a read").is_none());
    env.until_noted(|noted| noted.len() == 2).await;
    messaging.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_message_that_cannot_be_delivered_is_listed_in_its_outbox() {
    let env = TestEnv::start(1).await;
    let messaging = env.messaging().start().expect("the durations fit");
    let mut batch = messaging.batch("ann");
    batch.send_to("hotel", "7", &Note(1)).expect("it is small");
    messaging.commit(batch).await.expect("a commit");
    let listed = until_retrying(&messaging, Side::Outbox, 1).await;
    let reason = &listed[0].last_error.reason;
    assert!(reason.contains("no route to container `hotel`"), "{reason}");
    assert_eq!(listed[0].from.to_string(), r#"house["ann"]"#);
    let inbox = messaging.retrying().count(Side::Inbox).await;
    assert_eq!(inbox.expect("a count"), 0);
    messaging.stop().await;
}
