//! Runs of handlers: typed messages, panics, failures, back-pressure, stop, and a broker.

use cdb_model::Document as _;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cdb_client::transport::async_trait;
use cdb_coordination::{HandlerError, Message};
use cdb_work::{
    Broker, Lane, NewWork, RunConfig, Settlement, WorkContext, WorkHandlers, WorkMessage,
};
use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, mpsc};

use crate::test_env::{Applied, Shop, TestEnv, config, message, next};

#[derive(Serialize, Deserialize)]
struct Paid {
    cents: u64,
}

impl Message for Paid {
    const TYPE: &'static str = "paid";
}

fn applied_by(work: &WorkContext) -> Applied {
    let message = work.message();
    Applied {
        partition: message.partition.clone(),
        unique: uuid::Uuid::new_v4().to_string(),
        stream: message.stream.clone(),
        message_id: message.message_id.clone(),
    }
}

/// Waits for the next value of a hook, in simulated time.
async fn told<T>(values: &mut mpsc::UnboundedReceiver<T>) -> T {
    let value = tokio::time::timeout(Duration::from_secs(60), values.recv()).await;
    value.expect("a hook is called").expect("the run goes on")
}

#[tokio::test(start_paused = true)]
async fn a_typed_handler_completes_messages_in_order_with_their_effects() {
    let env = TestEnv::start().await;
    let work = env.open(config()).await;
    let (done, mut completed) = mpsc::unbounded_channel();
    let handled = Arc::new(Mutex::new(Vec::new()));
    let order = handled.clone();
    let handlers = WorkHandlers::new()
        .on(move |paid: Paid, work: WorkContext| {
            order.lock().unwrap().push(paid.cents);
            async move {
                let mut effects = work.effects::<Shop>();
                effects.add(applied_by(&work).create())?;
                Ok(work.done().with_effects(&effects)?)
            }
        })
        .on_completion(move |message| done.send(message.message_id.clone()).unwrap());
    let run = work.run(RunConfig::default(), handlers);
    for cents in 1..=20 {
        let new = NewWork::inbox("a", cents.to_string());
        let new = new.with_message(&Paid { cents }).unwrap();
        work.immediate().store(new).await.unwrap();
    }
    for _ in 1..=20 {
        told(&mut completed).await;
    }
    run.stop().await.unwrap();
    assert_eq!(*handled.lock().unwrap(), (1..=20).collect::<Vec<u64>>());
    assert_eq!(env.applied().await.len(), 20);
}

#[tokio::test(start_paused = true)]
async fn panics_errors_and_unknown_kinds_stop_their_own_streams_only() {
    let env = TestEnv::start().await;
    let mut settings = config();
    settings.retry.max_attempts = 2;
    let work = env.open(settings).await;
    let (failed, mut failures) = mpsc::unbounded_channel();
    let handlers = WorkHandlers::new()
        .on(async |paid: Paid, work: WorkContext| match paid.cents {
            0 => panic!("no cents"),
            1 => Err(HandlerError::permanently("one cent is too little")),
            2 => Err(HandlerError::temporarily("not now")),
            _ => Ok(work.done()),
        })
        .on_failure(move |failure| {
            let settled = failure.settled.clone().unwrap();
            let told = (
                failure.message.stream.clone(),
                failure.reason.clone(),
                settled,
            );
            failed.send(told).unwrap();
        });
    let run = work.run(RunConfig::default(), handlers);
    let store = async |stream: &str, cents| {
        let new = NewWork::inbox(stream, "1")
            .with_message(&Paid { cents })
            .unwrap();
        work.immediate().store(new).await.unwrap();
    };
    store("panics", 0).await;
    store("refuses", 1).await;
    store("fails", 2).await;
    store("works", 3).await;
    work.immediate().store(message("unknown", 1)).await.unwrap();
    let mut told_by_stream: BTreeMap<String, Vec<(String, Settlement)>> = BTreeMap::new();
    for _ in 0..6 {
        let (stream, reason, settled) = told(&mut failures).await;
        told_by_stream
            .entry(stream)
            .or_default()
            .push((reason, settled));
    }
    for stream in ["panics", "fails"] {
        let both = &told_by_stream[stream];
        assert!(matches!(both[0].1, Settlement::Retrying { .. }), "{both:?}");
        assert_eq!(both[1].1, Settlement::Dead);
    }
    assert!(told_by_stream["panics"][0].0.contains("no cents"));
    for stream in ["refuses", "unknown"] {
        assert_eq!(told_by_stream[stream].len(), 1, "no attempt can succeed");
        assert_eq!(told_by_stream[stream][0].1, Settlement::Dead);
    }
    assert!(!told_by_stream.contains_key("works"));
    assert_eq!(work.dead_letters(10).await.unwrap().len(), 4);
    run.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn no_more_messages_are_claimed_than_handlers_may_run() {
    let env = TestEnv::start().await;
    let work = env.open(config()).await;
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (done, mut completed) = mpsc::unbounded_channel();
    let seen = (running.clone(), most.clone());
    let handlers = WorkHandlers::new()
        .otherwise(move |work: WorkContext| {
            let (running, most) = seen.clone();
            async move {
                let now = running.fetch_add(1, Ordering::SeqCst) + 1;
                most.fetch_max(now, Ordering::SeqCst);
                tokio::time::sleep(Duration::from_millis(100)).await;
                running.fetch_sub(1, Ordering::SeqCst);
                Ok(work.done())
            }
        })
        .on_completion(move |_| done.send(()).unwrap());
    for stream in 0..20 {
        ok!(work.immediate().store(message(&stream.to_string(), 1)));
    }
    let run = work.run(RunConfig::default().with_concurrency(3), handlers);
    tokio::time::sleep(Duration::from_millis(50)).await;
    let others = work.claim(100, Duration::ZERO).await;
    assert!(others.len() >= 14, "{} were left to others", others.len());
    others.into_iter().for_each(cdb_work::ClaimedWork::release);
    for _ in 0..20 {
        told(&mut completed).await;
    }
    assert_eq!(most.load(Ordering::SeqCst), 3);
    run.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_stop_waits_for_running_handlers_and_writes_their_results() {
    let env = TestEnv::start().await;
    let work = env.open(config()).await;
    let started = Arc::new(Notify::new());
    let begun = started.clone();
    let handlers = WorkHandlers::new().otherwise(move |work: WorkContext| {
        let begun = begun.clone();
        async move {
            begun.notify_one();
            tokio::time::sleep(Duration::from_secs(3)).await;
            Ok(work.done())
        }
    });
    for number in 1..=2 {
        work.immediate().store(message("a", number)).await.unwrap();
    }
    let run = work.run(RunConfig::default(), handlers);
    started.notified().await;
    run.stop().await.unwrap();
    let left = next(&work).await;
    assert_eq!(left.message().message_id, "2", "the first is completed");
    assert_eq!(left.message().attempts, 0);
}

#[tokio::test(start_paused = true)]
async fn a_handler_whose_claim_timed_out_is_cancelled() {
    struct OnDrop(mpsc::UnboundedSender<()>);
    impl Drop for OnDrop {
        fn drop(&mut self) {
            // The test may have ended.
            let _ended = self.0.send(());
        }
    }
    let env = TestEnv::start().await;
    let mut settings = config();
    settings.claim_timeout = Duration::from_secs(3);
    let work = env.open(settings).await;
    let (cancelled, mut cancellations) = mpsc::unbounded_channel();
    let handlers = WorkHandlers::new().otherwise(move |work: WorkContext| {
        let on_drop = OnDrop(cancelled.clone());
        async move {
            if work.message().attempts == 0 {
                std::future::pending::<()>().await;
            }
            std::mem::forget(on_drop);
            Ok(work.done())
        }
    });
    for number in 1..=2 {
        work.immediate().store(message("a", number)).await.unwrap();
    }
    let run = work.run(RunConfig::default().with_concurrency(1), handlers);
    told(&mut cancellations).await;
    told(&mut cancellations).await;
    run.stop().await.unwrap();
}

/// A broker in this process, which delivers again what is not acknowledged.
#[derive(Default)]
struct InProcess {
    incoming: Mutex<BTreeMap<u64, String>>,
    published: Mutex<Vec<String>>,
    arrived: Notify,
    refusals: AtomicUsize,
}

#[async_trait]
impl Broker for InProcess {
    type Delivery = u64;

    async fn publish(&self, message: &WorkMessage) -> Result<(), HandlerError> {
        if self
            .refusals
            .fetch_add(1, Ordering::SeqCst)
            .is_multiple_of(3)
        {
            return Err(HandlerError::temporarily("the broker is busy"));
        }
        self.published
            .lock()
            .unwrap()
            .push(message.message_id.clone());
        Ok(())
    }

    async fn receive(&self) -> Result<Option<(NewWork, u64)>, HandlerError> {
        loop {
            let first = self
                .incoming
                .lock()
                .unwrap()
                .iter()
                .next()
                .map(|(n, body)| (*n, body.clone()));
            if let Some((number, body)) = first {
                // Every message is delivered several times before its acknowledgement.
                tokio::time::sleep(Duration::from_millis(20)).await;
                return Ok(Some((
                    NewWork::inbox("orders", number.to_string()).with_body("order", body),
                    number,
                )));
            }
            self.arrived.notified().await;
        }
    }

    async fn acknowledge(&self, delivery: u64) -> Result<(), HandlerError> {
        self.incoming.lock().unwrap().remove(&delivery);
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn a_bridge_publishes_the_outbox_and_stores_what_a_broker_delivers() {
    let env = TestEnv::start().await;
    let work = env.open(config()).await;
    let broker = Arc::new(InProcess::default());
    let (done, mut completed) = mpsc::unbounded_channel();
    let answering = work.clone();
    let handlers = WorkHandlers::new()
        .otherwise(move |context: WorkContext| {
            let answering = answering.clone();
            async move {
                let id = format!("answer-{}", context.message().message_id);
                answering
                    .immediate()
                    .store(NewWork::outbox("orders", id))
                    .await?;
                Ok(context.done())
            }
        })
        .on_completion(move |message| done.send(message.message_id.clone()).unwrap());
    let inbox = work.run(RunConfig::default().with_lane(Lane::Inbox), handlers);
    let bridge = work.bridge(RunConfig::default(), broker.clone());
    for number in 1..=10 {
        broker
            .incoming
            .lock()
            .unwrap()
            .insert(number, "{}".to_owned());
    }
    broker.arrived.notify_one();
    let mut handled = Vec::new();
    for _ in 1..=10 {
        handled.push(told(&mut completed).await);
    }
    assert_eq!(handled, (1..=10).map(|n| n.to_string()).collect::<Vec<_>>());
    for _ in 0..600 {
        if broker.published.lock().unwrap().len() == 10 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    bridge.stop().await.unwrap();
    inbox.stop().await.unwrap();
    let expected: Vec<String> = (1..=10).map(|n| format!("answer-{n}")).collect();
    assert_eq!(*broker.published.lock().unwrap(), expected);
    assert!(broker.incoming.lock().unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_message_inherits_trace_context_and_scope_from_the_message_being_handled() {
    let env = TestEnv::start().await;
    let work = env.open(config()).await;
    let sender = work.clone();
    let handlers = WorkHandlers::new().otherwise(move |context: WorkContext| {
        let sender = sender.clone();
        async move {
            assert_eq!(
                context.message().context.headers["content-type"],
                "text/plain"
            );
            let answer = NewWork::outbox("a", "answer").with_header("reply-to", "1");
            sender.immediate().store(answer).await?;
            Ok(context.done())
        }
    });
    let run = work.run(RunConfig::default().with_lane(Lane::Inbox), handlers);
    let request = message("a", 1)
        .with_header("traceparent", "00-1-2-01")
        .with_header("content-type", "text/plain")
        .with_scope("tenant", "acme");
    work.immediate().store(request).await.unwrap();
    let claimed = work
        .claim_from(Lane::Outbox, 1, Duration::from_secs(60))
        .await;
    let context = &claimed[0].message().context;
    let headers: Vec<(&str, &str)> = context.headers.iter().map(|(n, v)| (&**n, &**v)).collect();
    assert_eq!(headers, [("reply-to", "1"), ("traceparent", "00-1-2-01")]);
    assert_eq!(context.scope["tenant"], "acme");
    run.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn several_handlers_get_a_message_once_each() {
    let env = TestEnv::start().await;
    let work = env.open(config()).await;
    let (done, mut completed) = mpsc::unbounded_channel();
    let handlers = WorkHandlers::new()
        .on_handler("projection", async |_: Paid, work: WorkContext| {
            Ok(work.done())
        })
        .otherwise(async |work: WorkContext| Ok(work.done()))
        .on_completion(move |message| done.send(message.clone()).unwrap());
    let mut stored = Vec::new();
    for handler in ["projection", "invoice", "projection"] {
        let new = NewWork::inbox("a", "1").once_per_handler(handler);
        let new = new.with_message(&Paid { cents: 1 }).unwrap();
        stored.push(work.immediate().store(new).await.unwrap());
    }
    assert_eq!(stored[1], Settlement::Stored { sequence: 2 });
    assert_eq!(stored[2], Settlement::Duplicate);
    let run = work.run(RunConfig::default(), handlers);
    let both = [told(&mut completed).await, told(&mut completed).await];
    let ids: Vec<&str> = both.iter().map(|message| &*message.message_id).collect();
    assert_eq!(ids, ["1@projection", "1@invoice"]);
    assert_eq!(both[1].handler(), Some("invoice"));
    run.stop().await.unwrap();
    assert!(completed.try_recv().is_err(), "the duplicate is dropped");
}
