//! The broker: NATS JetStream.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_nats::HeaderMap;
use async_nats::jetstream::consumer::{AckPolicy, pull};
use async_nats::jetstream::{self, stream};
use async_trait::async_trait;
use cdb_coordination::HandlerError;
use cdb_work::{Broker, NewWork, WorkMessage};
use futures::StreamExt as _;
use tokio::sync::Mutex;

use crate::Failure;

/// The headers of a published message: the stream of the work, the id and the kind of the message.
const STREAM: &str = "cdb-stream";
const MESSAGE: &str = "cdb-message";
const KIND: &str = "cdb-kind";

/// How long the broker waits for an acknowledgement before it delivers a message again.
const ACKNOWLEDGE_WITHIN: Duration = Duration::from_secs(1);

/// Publishes to one subject, and receives from another.
pub struct NatsBroker {
    jetstream: jetstream::Context,
    publish_to: String,
    received: Mutex<pull::Stream>,
}

/// The JetStream stream with the messages of a subject; created if it does not exist.
pub async fn stream_of(
    jetstream: &jetstream::Context,
    subject: &str,
) -> Result<stream::Stream, Failure> {
    let config = stream::Config {
        name: subject.to_owned(),
        subjects: vec![subject.to_owned()],
        ..stream::Config::default()
    };
    Ok(jetstream.get_or_create_stream(config).await?)
}

impl NatsBroker {
    /// Connects to the server.
    pub async fn connect(
        server: &str,
        publish_to: &str,
        receive_from: &str,
    ) -> Result<Self, Failure> {
        let jetstream = jetstream::new(async_nats::connect(server).await?);
        stream_of(&jetstream, publish_to).await?;
        let config = pull::Config {
            durable_name: Some("bridge".to_owned()),
            ack_policy: AckPolicy::Explicit,
            ack_wait: ACKNOWLEDGE_WITHIN,
            // JetStream delivers a message again after later ones. With one unacknowledged message
            // there is no later one, so the order holds.
            max_ack_pending: 1,
            ..pull::Config::default()
        };
        let source = stream_of(&jetstream, receive_from).await?;
        let consumer = source.get_or_create_consumer("bridge", config).await?;
        Ok(Self {
            received: Mutex::new(consumer.messages().await?),
            publish_to: publish_to.to_owned(),
            jetstream,
        })
    }
}

#[async_trait]
impl Broker for NatsBroker {
    type Delivery = jetstream::Message;

    async fn publish(&self, message: &WorkMessage) -> Result<(), HandlerError> {
        let mut headers = HeaderMap::new();
        for (name, value) in &message.context.headers {
            headers.insert(name.as_str(), value.as_str());
        }
        headers.insert(STREAM, message.stream.as_str());
        headers.insert(MESSAGE, message.message_id.as_str());
        headers.insert(KIND, message.kind.as_str());
        let (subject, body) = (self.publish_to.clone(), message.body.clone().into());
        let published = self.jetstream.publish_with_headers(subject, headers, body);
        published.await?.await?;
        Ok(())
    }

    async fn receive(&self) -> Result<Option<(NewWork, jetstream::Message)>, HandlerError> {
        let Some(received) = self.received.lock().await.next().await else {
            return Ok(None);
        };
        let message = received?;
        let header = |name: &str| {
            let headers = message.headers.as_ref()?;
            Some(headers.get(name)?.as_str().to_owned())
        };
        let (Some(stream), Some(id)) = (header(STREAM), header(MESSAGE)) else {
            return Err(HandlerError::temporarily("a message has no header `cdb-stream`"));
        };
        let body = String::from_utf8(message.payload.to_vec())?;
        let work = NewWork::inbox(stream, id).with_body(header(KIND).unwrap_or_default(), body);
        Ok(Some((work, message)))
    }

    async fn acknowledge(&self, delivery: jetstream::Message) -> Result<(), HandlerError> {
        let acknowledged = delivery.ack().await;
        acknowledged.map_err(|error| HandlerError::temporarily(error.to_string()))
    }
}

/// A broker that ends the process at the worst moment: after a message was published and before
/// that is reported, or after a message was stored and before it is acknowledged.
pub struct Fatal {
    broker: NatsBroker,
    /// How many publications and acknowledgements take place before the process ends.
    left: AtomicU32,
}

impl Fatal {
    pub fn new(broker: NatsBroker, calls: u32) -> Self {
        Self {
            broker,
            left: AtomicU32::new(calls),
        }
    }

    fn count(&self) {
        if self.left.fetch_sub(1, Ordering::SeqCst) == 1 {
            std::process::abort();
        }
    }
}

#[async_trait]
impl Broker for Fatal {
    type Delivery = jetstream::Message;

    async fn publish(&self, message: &WorkMessage) -> Result<(), HandlerError> {
        self.broker.publish(message).await?;
        self.count();
        Ok(())
    }

    async fn receive(&self) -> Result<Option<(NewWork, jetstream::Message)>, HandlerError> {
        self.broker.receive().await
    }

    async fn acknowledge(&self, delivery: jetstream::Message) -> Result<(), HandlerError> {
        self.count();
        self.broker.acknowledge(delivery).await
    }
}
