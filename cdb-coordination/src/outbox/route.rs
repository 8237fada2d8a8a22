//! Delivery into another container.

use async_trait::async_trait;
use cdb_client::ContainerClient;
use cdb_model::container::MemberOf;
use cdb_model::operation::BulkBatch;
use cdb_model::{Container, Document as _};

use crate::message::{Envelope, Incoming, MessageDocument};
use crate::retry::{DeliveryError, Tries};
use crate::telemetry;

/// A container that messages can be delivered to, without its type.
#[async_trait]
pub(crate) trait Route: Send + Sync {
    /// Creates the messages in their partitions. Returns one result per envelope.
    async fn put(&self, envelopes: Vec<Envelope>) -> Vec<Result<(), DeliveryError>>;
}

#[async_trait]
impl<C: Container> Route for ContainerClient<C>
where
    MessageDocument<C>: MemberOf<C>,
{
    async fn put(&self, envelopes: Vec<Envelope>) -> Vec<Result<(), DeliveryError>> {
        let now = self.now();
        let mut bulk = BulkBatch::<C>::new();
        let mut results = Vec::with_capacity(envelopes.len());
        let mut places = Vec::new();
        for (number, envelope) in envelopes.into_iter().enumerate() {
            match bulk.add(MessageDocument::<C>::incoming(arriving(envelope), now).create()) {
                Ok(_) => {
                    places.push(number);
                    results.push(Ok(()));
                }
                Err(error) => results.push(Err(DeliveryError::permanent(error.to_string()))),
            }
        }
        if !bulk.is_empty() {
            let answers = self.execute_bulk_skipping_unavailable(&bulk).await;
            for (number, answer) in places.into_iter().zip(answers) {
                results[number] = arrival(answer.map(drop));
            }
        }
        results
    }
}

/// An incoming message that no process has claimed.
pub(crate) fn arriving(envelope: Envelope) -> Incoming {
    Incoming {
        envelope,
        claimed_by: None,
        started: 0,
        tries: Tries::default(),
    }
}

/// Converts the result of a delivery. A message that exists already was delivered before. A unique
/// key of another document says nothing of the kind: the message does not exist.
pub(crate) fn arrival(answer: Result<(), cdb_client::Error>) -> Result<(), DeliveryError> {
    match answer {
        Ok(()) => Ok(()),
        Err(error) if error.is_conflict() => {
            telemetry::delivered_again();
            Ok(())
        }
        Err(error) => Err(DeliveryError::from(&error)),
    }
}
