//! Generic document types, and parts of an id that methods return.

use std::fmt::Debug;
use std::marker::PhantomData;

use cdb_model::document::BatchPartition;
use cdb_model::operation::Lease;
use cdb_model::query::Explain as _;
use cdb_model::stored::{decode, encode};
use cdb_model::value::IdPart;
use cdb_model::{
    Batch, Container, Document, DocumentKey, PartitionKey, PartitionKeyFields, Query, Timestamp,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The bounds of `P` are inferred.
#[derive(Document, Serialize, Deserialize, Debug, PartialEq)]
#[document(type = "event", id = "event:{number}")]
#[document(composite(BY_STATE = state, number))]
struct Event<P> {
    #[document(partition_key)]
    aggregate: String,
    #[document(index)]
    number: u64,
    #[document(index)]
    state: String,
    #[document(index(at: Timestamp))]
    payload: P,
    #[document(lease)]
    #[serde(default)]
    lease: Lease,
    #[document(soft_delete)]
    deleted_at: Option<Timestamp>,
}

#[derive(Serialize, Deserialize, Debug, PartialEq)]
struct Created {
    at: Timestamp,
}

#[derive(Container)]
enum Log {
    Event(Event<Created>),
    Note(Note<Log>),
}

/// A type for every container: its partition key is that of the container.
#[derive(Document, Serialize, Deserialize)]
#[serde(bound = "")]
#[document(type = "note", id = "note:{kind}:{text}", id_part(kind: String))]
#[document(bound = "C: Container")]
struct Note<C> {
    #[serde(flatten)]
    #[document(partition_key)]
    key: KeyOf<C>,
    text: String,
}

impl<C> Note<C> {
    fn kind(&self) -> String {
        let kind = if self.text.is_empty() { "none" } else { "text" };
        kind.to_owned()
    }
}

/// The partition key of a container with one level.
#[derive(Serialize, Deserialize)]
#[serde(bound = "")]
struct KeyOf<C> {
    aggregate: String,
    #[serde(skip)]
    container: PhantomData<fn() -> C>,
}

impl<C: Container> PartitionKeyFields for KeyOf<C> {
    const PATHS: &'static [&'static str] = C::PARTITION_KEY;

    fn to_partition_key(&self) -> PartitionKey {
        self.aggregate.clone().into()
    }
}

/// A parameter can be part of the key.
#[derive(Document, Serialize, Deserialize)]
#[serde(bound = "N: Serialize + DeserializeOwned")]
#[document(type = "item", id = "item:{number}")]
#[document(
    bound = "N: IdPart + Clone + Debug + Serialize + DeserializeOwned + Send + Sync + 'static"
)]
struct Item<N> {
    #[document(partition_key)]
    owner: String,
    number: N,
}

fn note() -> Note<Log> {
    Note {
        key: KeyOf {
            aggregate: "a".to_owned(),
            container: PhantomData,
        },
        text: "later".to_owned(),
    }
}

#[test]
fn a_generic_type_is_stored_like_any_other() {
    let event = Event {
        aggregate: "a".to_owned(),
        number: 1,
        state: "new".to_owned(),
        payload: Created {
            at: Timestamp::from_millis(5),
        },
        lease: Lease::default(),
        deleted_at: None,
    };
    let encoded = encode::<Log, _>(&event, Timestamp::from_millis(9)).unwrap();
    assert_eq!(encoded.id.as_str(), "event:1");
    let json = encoded
        .json
        .get()
        .replacen('{', r#"{"_etag":"e","_ts":1,"#, 1);
    assert_eq!(
        decode::<Log, Event<Created>>(&json).unwrap().document,
        event
    );
    Batch::<Log>::new("a").add(event.create()).unwrap();
}

#[test]
fn the_paths_of_a_generic_type_have_its_parameters() {
    let query = Query::<Event<Created>>::in_partition("a")
        .filter(Event::<Created>::PAYLOAD_AT.ge(Timestamp::from_millis(1)))
        .order_by(Event::<Created>::BY_STATE);
    let policy = Log::definition().indexing_policy;
    assert!(query.explain(&policy).is_served());
}

#[test]
fn a_type_can_take_its_partition_key_from_its_container() {
    assert_eq!(Log::PARTITION_KEY, ["/aggregate"]);
    assert_eq!(Note::<Log>::SHAPE.partition_key, Log::PARTITION_KEY);
    assert_eq!(note().partition_key(), "a".into());
}

#[test]
fn a_part_of_an_id_can_be_the_value_of_a_method() {
    let key: NoteKey<Log> = note().key();
    assert_eq!(key.to_id().unwrap().as_str(), "note:text:later");
    let parsed = NoteKey::<Log>::parse("note:text:later").unwrap();
    assert_eq!(parsed, NoteKey::new("text", "later"));
    assert_eq!(parsed.partition(), BatchPartition);
    assert_eq!(Note::<Log>::SHAPE.fields.len(), 1, "the part is not stored");
}

#[test]
fn a_part_of_an_id_can_have_the_type_of_a_parameter() {
    let item = Item {
        owner: "a".to_owned(),
        number: 7_u64,
    };
    assert_eq!(item.key().to_id().unwrap().as_str(), "item:7");
    assert_eq!(ItemKey::<u64>::parse("item:7").unwrap(), item.key());
}
