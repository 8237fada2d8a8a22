//! The key of a document after any write: that of its address.

use cdb_client::{Bootstrap, ContainerClient};
use cdb_model::stored::UnknownFields;
use cdb_model::{Container, Document, Query};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{Form, FormKey, Forms, form, numbers};
use crate::account::Account;
use crate::catalog::Numbers;

/// Writes in one of the ways that take a whole document, which may get another number before.
async fn write(forms: &ContainerClient<Forms>, random: &mut Numbers) {
    let (at, other) = (random.below(4), random.below(4));
    let address = FormKey::new(at).in_partition("s");
    let other = if random.chance() { at } else { other };
    let written = random.below(5);
    if written < 3 {
        let document = form(at);
        let _refused = match written {
            0 => forms.run(document.create()).await.map(drop),
            1 => forms.run(document.upsert()).await.map(drop),
            _ => forms.run(document.replace()).await.map(drop),
        };
    } else if written == 3 {
        let _refused = forms.update(&address, |form| form.number = other).await;
    } else if let Some(mut stored) = forms.read(&address).await.unwrap() {
        stored.document.number = other;
        let _refused = forms.run(stored.replace()).await;
    }
}

#[tokio::test]
async fn a_document_read_by_an_address_has_its_key_after_any_write() {
    let account = Account::new().await;
    let forms = account.open::<Forms>("forms").await;
    let mut random = Numbers(5);
    for _ in 0..200 {
        write(&forms, &mut random).await;
        for number in 0..4 {
            let key = FormKey::new(number);
            let read = forms.read(key.in_partition("s")).await.unwrap();
            assert!(read.is_none_or(|read| read.key() == key), "{key:?}");
        }
    }
}

#[tokio::test]
async fn a_replacement_with_another_key_is_refused_by_name() {
    let account = Account::new().await;
    let forms = account.open::<Forms>("forms").await;
    forms.run(form(7).create()).await.unwrap();
    let address = FormKey::new(7).in_partition("s");
    let changed = "was read at id `form:7`, but its fields now have the id `form:8`";
    let error = forms.update(&address, |form| form.number = 8).await;
    assert!(error.unwrap_err().to_string().contains(changed));
    let mut stored = forms.read(&address).await.unwrap().unwrap();
    stored.document.number = 8;
    let error = forms.run(stored.replace()).await;
    assert!(error.unwrap_err().to_string().contains(changed));
    let moved = forms.update(&address, |form| form.shop = "t".to_owned());
    let error = moved.await.unwrap_err().to_string();
    assert!(error.contains("was read in partition"), "{error}");
}

/// The same documents under an id that is not that of their number.
#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[document(type = "form", id = "form:{place}", version = 1)]
struct Misplaced {
    #[document(partition_key)]
    shop: String,
    place: String,
    #[serde(flatten)]
    #[document(unknown)]
    rest: UnknownFields,
}

#[derive(Container, Clone, Debug)]
enum MisplacedForms {
    Misplaced(Misplaced),
}

#[tokio::test]
async fn a_document_of_another_program_is_replaced_at_its_own_id() {
    let account = Account::new().await;
    let forms = account.open::<Forms>("forms").await;
    let misplaced = account
        .database
        .bootstrap::<MisplacedForms>("forms", Bootstrap::Skip);
    let misplaced = misplaced.await.unwrap();
    for place in ["3", "x"] {
        let document = Misplaced {
            shop: "s".to_owned(),
            place: place.to_owned(),
            rest: serde_json::from_value(json!({"number": 5, "required": 1, "kept": 1})).unwrap(),
        };
        misplaced.run(document.create()).await.unwrap();
        let filter = Form::REQUIRED.eq(1);
        let query = Query::<Form>::in_partition("s").filter(filter);
        let read = forms.query(query).all().await.unwrap();
        let stored = read.iter().find(|form| form.id.as_str().ends_with(place));
        let stored = stored.unwrap();
        let changed = forms.update(stored, |form| form.kept = Some(2)).await;
        changed.unwrap();
    }
    let both = Form::KEPT.eq(2);
    assert_eq!(numbers(&forms, both).await, [5, 5]);
}
