//! A container whose partitions record the notes that they receive. Time is simulated.

use std::collections::BTreeSet;
use std::ops::Range;
use std::time::Duration;

use cdb_client::transport::SimulatedTime;
use cdb_client::{Bootstrap, ContainerClient};
use cdb_coordination::messaging::{Handled, MessagingBuilder, MessagingConfig};
use cdb_coordination::{Message, MessageDocument, Messaging, OutboxBatch};
use cdb_model::value::PartitionKeyValue;
use cdb_model::{Container, Document, Query};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::backend::Backend;

/// The effect of one note.
#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[document(type = "noted", id = "{place}:noted:{number}")]
pub(crate) struct Noted {
    #[document(partition_key)]
    pub(crate) place: String,
    pub(crate) number: u32,
}

#[derive(Container)]
pub(crate) enum House {
    Noted(Noted),
    Message(MessageDocument<House>),
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Note(pub(crate) u32);

impl Message for Note {
    const TYPE: &'static str = "note";
}

pub(crate) struct TestEnv {
    pub(crate) backend: Backend,
    pub(crate) house: ContainerClient<House>,
}

impl TestEnv {
    /// A container with this many physical partitions.
    pub(crate) async fn start(physical: u32) -> Self {
        let backend = Backend::start(physical, Some(SimulatedTime::new())).await;
        let database = backend.database();
        let house = ok!(database.bootstrap("house", Bootstrap::CreateIfMissing));
        Self { backend, house }
    }

    /// Messaging of another process, with short claims.
    pub(crate) fn messaging(&self) -> MessagingBuilder<House> {
        let house = self.backend.database().container("house");
        Messaging::builder(house).config(
            MessagingConfig::default()
                .with_claims(Duration::from_millis(200), Duration::from_millis(500))
                .with_poll_interval(Duration::from_millis(50)),
        )
    }

    /// The places that have recorded a note, with its number.
    pub(crate) async fn noted(&self) -> BTreeSet<(String, u32)> {
        let all = self.house.query(Query::<Noted>::across_partitions()).all();
        let all = all.await.expect("a query").into_iter();
        all.map(|noted| (noted.document.place, noted.document.number))
            .collect()
    }

    /// Waits until the recorded notes meet a condition, for up to two minutes. Returns the time that
    /// this took.
    pub(crate) async fn until_noted(
        &self,
        is_met: impl Fn(&BTreeSet<(String, u32)>) -> bool,
    ) -> Duration {
        let from = Instant::now();
        while !is_met(&self.noted().await) && from.elapsed() < Duration::from_secs(120) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        from.elapsed()
    }
}

/// Sends notes of Ann with these numbers to each of the places, in one commit.
pub(crate) async fn send(
    messaging: &Messaging<House>,
    places: &[impl AsRef<str>],
    numbers: Range<u32>,
) {
    let mut batch = messaging.batch("ann");
    for place in places {
        for number in numbers.clone() {
            let sent = batch.send(place.as_ref(), &Note(number));
            sent.expect("a note is JSON");
        }
    }
    messaging.commit(batch).await.expect("a commit");
}

/// Records a note in the partition that receives it.
pub(crate) fn note_down(note: &Note, mut batch: OutboxBatch<House>) -> Handled<House> {
    let place = place_of(&batch);
    batch.add(
        Noted {
            place,
            number: note.0,
        }
        .create(),
    )?;
    Ok(batch)
}

/// The partition that receives a message.
pub(crate) fn place_of<C: Container>(batch: &OutboxBatch<C>) -> String {
    match batch.partition().values() {
        [PartitionKeyValue::String(place)] => place.clone(),
        other => panic!("{other:?}"),
    }
}
