//! The measured charges in `docs/search.md`.

use cdb_client::ContainerClient;
use cdb_model::operation::BulkBatch;
use cdb_model::{Container, Document, Query};
use serde::{Deserialize, Serialize};

use crate::account::Account;
use crate::query_costs::assert_table;

const DIMENSIONS: u64 = 64;

#[derive(Document, Serialize, Deserialize, Clone)]
#[document(type = "note", id = "note:{number}")]
#[document(computed(title_lower: String = "LOWER({title})", index))]
struct Note {
    #[document(partition_key)]
    author: String,
    number: u64,
    title: String,
    #[document(full_text)]
    text: String,
    #[document(vector(dimensions = 64))]
    meaning: Vec<f32>,
}

#[derive(Container)]
enum Notes {
    Note(Note),
}

/// Returns the nearest of 100 directions.
fn vector(seed: u64) -> Vec<f32> {
    let numbers = (0..DIMENSIONS).map(|at| (seed * 31 + at * at * 17) % 100);
    numbers
        .map(|number| f32::from(u8::try_from(number).unwrap()) / 100.0)
        .collect()
}

fn note(number: u64) -> Note {
    let words = ["red", "bike", "car", "house", "hill", "green", "old"];
    let word = |at: u64| words[usize::try_from((number / 3 + at * at) % 7).unwrap()];
    Note {
        author: format!("author-{}", number % 12),
        number,
        title: format!("Note {number:04}"),
        text: (0..100).map(word).collect::<Vec<_>>().join(" "),
        meaning: vector(number),
    }
}

async fn filled(account: &Account) -> ContainerClient<Notes> {
    let notes: ContainerClient<Notes> = account.open("notes").await;
    let mut bulk = BulkBatch::<Notes>::new();
    for number in 0..1_000 {
        bulk.add(note(number).create()).unwrap();
    }
    for result in notes.execute_bulk(&bulk).await {
        result.unwrap();
    }
    notes
}

#[tokio::test]
async fn the_costs_of_searches_in_the_docs_are_measured() {
    let account = Account::new().await;
    or_skip!(account.emulator(), "needs the emulator");
    let notes = filled(&account).await;
    let mut lines = Vec::new();
    let mut add = async |what: &str, does: std::pin::Pin<Box<dyn Future<Output = usize> + '_>>| {
        let before = account.client.usage();
        assert!(does.await > 0, "{what} finds nothing");
        let used = account.client.usage().since(&before).total();
        let kilobytes = used.bytes_received.div_ceil(1_000);
        let (requests, charge) = (used.requests, used.charge);
        lines.push(format!(
            "| {what} | {requests} | {charge:.1} | {kilobytes} |"
        ));
    };
    let all = Query::<Note>::across_partitions;
    let near = Note::MEANING.nearest(vector(3));
    let words = Note::TEXT.ranked(["red", "bike"]);
    let found = |query| async { notes.search(query).await.unwrap().len() };
    let listed = |query| async { notes.query(query).all().await.unwrap().len() };
    add(
        "all documents, to compare them in the program",
        Box::pin(listed(all())),
    )
    .await;
    add(
        "the 10 nearest",
        Box::pin(found(all().search(near.clone(), 10))),
    )
    .await;
    let one = Query::in_partition("author-3").search(near.clone(), 10);
    add("the 10 nearest of one partition", Box::pin(found(one))).await;
    add(
        "the 10 best by two words",
        Box::pin(found(all().search(words.clone(), 10))),
    )
    .await;
    let both = all().search(near.and(words), 10);
    add("the 10 best by both", Box::pin(found(both))).await;
    let about = all()
        .filter(Note::TEXT.contains_any_word(["bike"]))
        .limit(10);
    add("10 with a word", Box::pin(listed(about))).await;
    let titled = all().filter(Note::TITLE_LOWER.eq("note 0007"));
    add("one by a computed property", Box::pin(listed(titled))).await;
    assert_table("search.md", "### Cost of searches", &lines.join("\n"));
}
