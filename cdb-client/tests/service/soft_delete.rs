//! Soft deletions, compared with the same filter in Rust.

use std::collections::BTreeSet;

use cdb_client::ContainerClient;
use cdb_client::feed::FeedStart;
use cdb_model::operation::BulkBatch;
use cdb_model::{Batch, Container, Document, Patch, Projection, Query, Timestamp};
use serde::{Deserialize, Serialize};

use crate::account::Account;
use crate::catalog::Numbers;

/// The time of deletion is missing before the first deletion, and null after `restore`.
#[derive(Document, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
#[document(type = "note", id = "{author}:note:{number}")]
struct Note {
    #[document(partition_key)]
    author: String,
    number: u64,
    #[document(index)]
    color: u64,
    #[document(soft_delete)]
    #[serde(skip_serializing_if = "Option::is_none")]
    deleted_at: Option<Timestamp>,
}

/// A type without soft deletion, whose field has the same path.
#[derive(Document, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
#[document(type = "draft", id = "{author}:draft:{number}")]
struct Draft {
    #[document(partition_key)]
    author: String,
    number: u64,
    deleted_at: Option<Timestamp>,
}

#[derive(Container, Clone, Debug, PartialEq)]
enum Notebook {
    Note(Note),
    Draft(Draft),
}

fn note(number: u64) -> Note {
    Note {
        author: format!("author-{}", number % 7),
        number,
        color: number % 3,
        deleted_at: None,
    }
}

/// Returns a container with notes and one draft.
async fn notebook(account: &Account, notes: u64) -> ContainerClient<Notebook> {
    let notebook: ContainerClient<Notebook> = account.open("notebook").await;
    let mut bulk = BulkBatch::<Notebook>::new();
    for number in 0..notes {
        bulk.add(note(number).create()).unwrap();
    }
    let draft = Draft {
        author: "author-1".to_owned(),
        number: 1,
        deleted_at: Some(Timestamp::from_secs(1)),
    };
    bulk.add(draft.create()).unwrap();
    for result in notebook.execute_bulk(&bulk).await {
        result.unwrap();
    }
    notebook
}

async fn notes(notebook: &ContainerClient<Notebook>, query: Query<Note>) -> BTreeSet<u64> {
    let found = notebook.query(query).all().await.unwrap();
    found.iter().map(|note| note.number).collect()
}

#[tokio::test]
async fn queries_return_exactly_the_documents_that_are_not_deleted() {
    let account = Account::new().await;
    let notebook = notebook(&account, 120).await;
    let mut random = Numbers(1);
    let mut expected: BTreeSet<u64> = (0..120).collect();
    for _ in 0..200 {
        let number = random.below(120);
        let key = note(number).key();
        if random.chance() {
            notebook.soft_delete(&key).await.unwrap();
            expected.remove(&number);
        } else {
            notebook.restore(&key).await.unwrap();
            expected.insert(number);
        }
    }
    let all = Query::<Note>::across_partitions;
    assert_eq!(notes(&notebook, all()).await, expected);
    assert_eq!(notes(&notebook, all().with_deleted()).await.len(), 120);

    let red = all().filter(Note::COLOR.eq(1_u64) | Note::COLOR.eq(2_u64));
    let expected_red = expected.iter().copied().filter(|n| n % 3 != 0).collect();
    assert_eq!(notes(&notebook, red).await, expected_red);

    let own = Query::<Note>::in_partition("author-3");
    let expected_own = expected.iter().copied().filter(|n| n % 7 == 3).collect();
    assert_eq!(notes(&notebook, own).await, expected_own);

    let count: u64 = notebook.query(all().count()).one().await.unwrap();
    assert_eq!(count, u64::try_from(expected.len()).unwrap());
    let numbers: Vec<u64> = ok!(notebook.query(all().values(Note::NUMBER)).all());
    assert_eq!(numbers.into_iter().collect::<BTreeSet<_>>(), expected);
    assert_eq!(counts_by_color(&notebook).await, brute_counts(&expected));
}

async fn counts_by_color(notebook: &ContainerClient<Notebook>) -> Vec<(u64, u64)> {
    let groups = Query::<Note>::across_partitions()
        .group_by(Note::COLOR)
        .count();
    notebook.query(groups).all().await.unwrap()
}

fn brute_counts(live: &BTreeSet<u64>) -> Vec<(u64, u64)> {
    let count = |color| live.iter().filter(|n| *n % 3 == color).count();
    (0..3)
        .map(|color| (color, u64::try_from(count(color)).unwrap()))
        .collect()
}

#[tokio::test]
async fn a_query_of_the_container_excludes_only_types_with_soft_deletion() {
    let account = Account::new().await;
    let notebook = notebook(&account, 10).await;
    for number in 0..4 {
        let key = note(number).key();
        notebook.soft_delete(&key).await.unwrap();
    }
    let all = Query::<Notebook>::across_partitions;
    // Six notes and the draft.
    assert_eq!(notebook.query(all()).all().await.unwrap().len(), 7);
    let with_deleted = notebook.query(all().with_deleted()).all().await.unwrap();
    assert_eq!(with_deleted.len(), 11);
    let drafts = Query::<Draft>::across_partitions();
    assert_eq!(notebook.query(drafts).all().await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_deleted_document_is_read_by_its_key_with_the_time_of_its_deletion() {
    let account = Account::new().await;
    let notebook = notebook(&account, 2).await;
    let key = note(1).key();
    let before = notebook.now();
    notebook.soft_delete(&key).await.unwrap();
    let after = notebook.now();
    let found = notebook.read(&key).await.unwrap().unwrap();
    let deleted_at = found.deleted_at.unwrap();
    assert!(before <= deleted_at && deleted_at <= after);

    let times = || Query::<Note>::across_partitions().filter(Note::DELETED_AT.is_defined());
    assert!(notes(&notebook, times()).await.is_empty());
    let deleted = notes(&notebook, times().with_deleted()).await;
    assert_eq!(deleted, BTreeSet::from([1]));

    notebook.restore(&key).await.unwrap();
    let found = notebook.read(&key).await.unwrap().unwrap();
    assert_eq!(found.document, note(1));
}

/// A projection of a note.
#[derive(Projection, Deserialize)]
#[projection(of = Note)]
struct NoteNumber {
    number: u64,
}

#[tokio::test]
async fn aggregates_and_projections_exclude_deleted_documents_and_reads_by_key_do_not() {
    let account = Account::new().await;
    let notebook = notebook(&account, 10).await;
    let deleted = [0, 4, 9];
    for number in deleted {
        let patch = Patch::<Note>::new().soft_delete(notebook.now());
        let mut batch = Batch::new(note(number).author);
        batch.add(patch.at(&note(number).key())).unwrap();
        notebook.execute(&batch).await.unwrap();
    }
    let all = Query::<Note>::across_partitions;
    let number = Note::NUMBER;
    let row = all().aggregate((number.min(), number.max(), number.sum(), number.avg()));
    let row = notebook.query(row).one().await.unwrap();
    assert_eq!(row, (Some(1), Some(8), 32, Some(32.0 / 7.0)));
    let distinct = notebook.query(all().distinct(Note::NUMBER));
    assert_eq!(distinct.all().await.unwrap(), [1, 2, 3, 5, 6, 7, 8]);
    let selected = notebook.query(all().select::<NoteNumber>()).all().await;
    let selected: BTreeSet<u64> = selected.unwrap().iter().map(|row| row.number).collect();
    assert_eq!(selected, BTreeSet::from([1, 2, 3, 5, 6, 7, 8]));
    let exists = Query::<Note>::in_partition(note(4).author).filter(Note::COLOR.eq(1_u64));
    assert!(notebook.query(exists).first().await.unwrap().is_none());

    let keys: Vec<NoteKey> = (0..10).map(|number| note(number).key()).collect();
    let read = notebook.read_many(&keys).await.unwrap();
    let marked = |note: &Note| note.deleted_at.is_some().then_some(note.number);
    let read = read.iter().flatten().filter_map(|note| marked(note));
    assert_eq!(read.collect::<Vec<_>>(), deleted);
    let (mut feed, mut changed) = (notebook.change_feed(FeedStart::Beginning), Vec::new());
    loop {
        let page = feed.next_changes().await.unwrap();
        if page.is_empty() {
            break;
        }
        changed.extend(page.iter().filter_map(|change| match &change.document {
            Notebook::Note(note) => marked(note),
            Notebook::Draft(_) => None,
        }));
    }
    changed.sort_unstable();
    assert_eq!(changed, deleted);
}

#[tokio::test]
async fn a_missing_document_cannot_be_deleted_or_restored() {
    let account = Account::new().await;
    let notebook = notebook(&account, 1).await;
    let key = note(5).key();
    let error = notebook.soft_delete(&key).await.unwrap_err();
    assert!(error.is_not_found());
    let error = notebook.restore(&key).await.unwrap_err();
    assert!(error.is_not_found());
}

/// The numbers in `docs/writing.md`.
#[tokio::test]
async fn the_condition_costs_what_the_docs_say() {
    let account = Account::new().await;
    or_skip!(account.emulator(), "needs the emulator");
    let notebook = notebook(&account, 1_000).await;
    notebook.physical_partitions().await.unwrap();
    for number in 0..500 {
        let key = note(number).key();
        notebook.soft_delete(&key).await.unwrap();
    }
    let all = Query::<Note>::across_partitions;
    let mut charges = Vec::new();
    for query in [all().with_deleted(), all()] {
        let before = account.client.usage();
        notebook.query(query.count()).one().await.unwrap();
        charges.push(account.client.usage().since(&before).total().charge);
    }
    let before = account.client.usage();
    let patch = Patch::<Note>::new().restore();
    notebook.run(patch.at(&note(1).key())).await.unwrap();
    charges.push(account.client.usage().since(&before).total().charge);
    let charges: Vec<_> = charges.iter().map(|c| format!("{c:.1}")).collect();
    assert_eq!(charges, ["56.6", "38.3", "10.5"]);
}
