//! Conflicts of ids and of unique keys, in every form in which a service may answer them.

use cdb_client::{ContainerClient, Error};
use cdb_emulator::UniqueKeyAnswer;
use cdb_model::operation::BulkBatch;
use cdb_model::{Batch, Container, Document};
use serde::{Deserialize, Serialize};

use crate::account::Account;

#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[document(type = "guest", id = "guest:{name}", unique(badge))]
struct Guest {
    #[document(partition_key)]
    place: String,
    name: String,
    badge: u32,
}

#[derive(Container, Debug)]
enum Guests {
    Guest(Guest),
}

fn guest(name: &str, badge: u32) -> Guest {
    Guest {
        place: "inn".to_owned(),
        name: name.to_owned(),
        badge,
    }
}

/// The outcomes of writes that conflict with the id of Ann, and of others that conflict with her
/// badge.
async fn conflicts(guests: &ContainerClient<Guests>) -> (Vec<Error>, Vec<Error>) {
    guests.run(guest("ann", 1).create()).await.unwrap();
    guests.run(guest("bob", 2).create()).await.unwrap();
    let create = async |guest: Guest| guests.run(guest.create()).await.unwrap_err();
    let batch = async |guest: Guest| {
        let mut batch = Batch::<Guests>::new("inn");
        batch.add(guest.create()).unwrap();
        guests.execute(&batch).await.unwrap_err()
    };
    let bulk = async |guest: Guest| {
        let mut bulk = BulkBatch::<Guests>::new();
        bulk.add(guest.create()).unwrap();
        guests.execute_bulk(&bulk).await.remove(0).unwrap_err()
    };
    let ids = vec![
        create(guest("ann", 3)).await,
        create(guest("ann", 1)).await,
        batch(guest("ann", 3)).await,
        bulk(guest("ann", 3)).await,
    ];
    let bob = guest("bob", 1);
    let patch = bob
        .key()
        .in_partition("inn")
        .patch()
        .set(Guest::BADGE, 1_u32);
    let mut moved = Batch::<Guests>::new("inn");
    moved.add(bob.key().in_partition("inn").delete()).unwrap();
    moved.add(bob.create()).unwrap();
    let keys = vec![
        create(guest("cat", 1)).await,
        batch(guest("cat", 1)).await,
        bulk(guest("cat", 1)).await,
        guests.run(bob.replace()).await.unwrap_err(),
        guests.run(bob.upsert()).await.unwrap_err(),
        guests.run(patch).await.unwrap_err(),
        guests.execute(&moved).await.unwrap_err(),
    ];
    (ids, keys)
}

#[tokio::test]
async fn a_taken_id_and_a_taken_unique_key_are_told_apart_in_every_form() {
    for form in [
        UniqueKeyAnswer::SubStatus,
        UniqueKeyAnswer::Text,
        UniqueKeyAnswer::AsTakenId,
    ] {
        let account = Account::new().await;
        if let Some(emulator) = account.emulator() {
            let changed = emulator.change(|settings| settings.unique_key_answer(form));
            changed.unwrap();
        }
        let (ids, keys) = conflicts(&account.open("guests").await).await;
        for error in ids {
            assert!(error.is_conflict(), "{form:?}: {error}");
        }
        for error in keys {
            assert!(!error.is_conflict(), "{form:?}: {error}");
            assert!(error.is_unique_key_conflict(), "{form:?}: {error}");
            assert!(error.to_string().contains("(/badge)"), "{form:?}: {error}");
        }
        let known = account.database.container::<Guests>("guests");
        let created = known.create_if_missing(&guest("cat", 1)).await;
        assert!(created.unwrap_err().is_unique_key_conflict(), "{form:?}");
    }
}
