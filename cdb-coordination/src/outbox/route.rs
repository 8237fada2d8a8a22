//! Delivery into another container.

use async_trait::async_trait;
use cdb_client::ContainerClient;
use cdb_model::{BulkBatch, Container, MemberOf};

use super::retry::{Tries, Undelivered};
use crate::mail::{Incoming, Letter, Mail};
use crate::telemetry;

/// A container that messages can be delivered into, whatever else is in it.
#[async_trait]
pub(crate) trait Route: Send + Sync {
    /// Creates the messages in their partitions. One result per letter.
    async fn put(&self, letters: Vec<Letter>) -> Vec<Result<(), Undelivered>>;
}

#[async_trait]
impl<C: Container> Route for ContainerClient<C>
where
    Mail<C>: MemberOf<C>,
{
    async fn put(&self, letters: Vec<Letter>) -> Vec<Result<(), Undelivered>> {
        let now = self.now();
        let mut bulk = BulkBatch::<C>::new();
        let mut results = Vec::with_capacity(letters.len());
        let mut places = Vec::new();
        for (number, letter) in letters.into_iter().enumerate() {
            match bulk.create(&Mail::<C>::incoming(arriving(letter), now)) {
                Ok(_) => {
                    places.push(number);
                    results.push(Ok(()));
                }
                Err(error) => results.push(Err(Undelivered::hopeless(error.to_string()))),
            }
        }
        if !bulk.is_empty() {
            let answers = self.execute_bulk(&bulk).await;
            for (number, answer) in places.into_iter().zip(answers) {
                results[number] = arrival(answer.map(drop));
            }
        }
        results
    }
}

/// A message that nobody has taken up yet.
pub(crate) fn arriving(letter: Letter) -> Incoming {
    Incoming {
        letter,
        claimed_by: None,
        started: 0,
        tries: Tries::default(),
    }
}

/// A message that is there already has arrived before.
pub(crate) fn arrival(answer: Result<(), cdb_client::Error>) -> Result<(), Undelivered> {
    match answer {
        Ok(()) => Ok(()),
        Err(error) if error.is_conflict() => {
            telemetry::delivered_again();
            Ok(())
        }
        Err(error) => Err(Undelivered::from(&error)),
    }
}
