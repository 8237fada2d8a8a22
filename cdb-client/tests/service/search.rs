//! Computed properties, and searches by vectors and words, compared with an exhaustive search.

use cdb_client::ContainerClient;
use cdb_model::query::search::{Hit, Rank};
use cdb_model::{Container, Document, Query};
use serde::{Deserialize, Serialize};

use crate::account::Account;

const WORDS: [&str; 8] = [
    "red", "bike", "car", "house", "hill", "green", "old", "fast",
];
const NOTES: u64 = 80;

#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[serde(rename_all = "camelCase")]
#[document(type = "note", id = "note:{number}")]
#[document(computed(title_lower: String = "LOWER({title})", index))]
#[document(computed(number_twice: u64 = "{number} * 2"))]
#[document(composite(BY_TITLE = r#type, title_lower))]
struct Note {
    #[document(partition_key)]
    author: String,
    number: u64,
    title: String,
    #[document(index)]
    is_public: bool,
    #[document(full_text)]
    body: Option<String>,
    #[document(vector(dimensions = 4))]
    cosine: Vec<f32>,
    #[document(vector(dimensions = 4, distance = dot_product, index = flat))]
    product: Vec<f32>,
    #[document(vector(dimensions = 4, distance = euclidean, index = disk_ann))]
    place: Option<Vec<f32>>,
}

#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[document(type = "tag", id = "tag:{name}")]
struct Tag {
    #[document(partition_key)]
    author: String,
    name: String,
    /// Is no text of a note.
    body: String,
}

#[derive(Container)]
enum Notes {
    Note(Note),
    Tag(Tag),
}

/// Returns numbers between 0 and `below` that look random.
fn numbers(seed: u64, below: u64) -> impl Iterator<Item = u64> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    std::iter::repeat_with(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    })
}

fn vector(seed: u64) -> Vec<f32> {
    let numbers = numbers(seed, 1000).take(4);
    numbers
        .map(|number| f32::from(u16::try_from(number).unwrap()) - 500.0)
        .collect()
}

fn text(seed: u64) -> String {
    let length = usize::try_from(3 + seed % 7).unwrap();
    let words = numbers(seed + 1000, 8).take(length);
    let words: Vec<&str> = words
        .map(|at| WORDS[usize::try_from(at).unwrap()])
        .collect();
    words.join(" ")
}

fn note(number: u64) -> Note {
    Note {
        author: format!("author-{}", number % 13),
        number,
        title: format!(
            "{} {number:02}",
            if number.is_multiple_of(2) {
                "Even"
            } else {
                "ODD"
            }
        ),
        is_public: !number.is_multiple_of(3),
        body: (number % 10 != 9).then(|| text(number)),
        cosine: vector(number),
        product: vector(number + 500),
        place: (!number.is_multiple_of(7)).then(|| vector(number + 900)),
    }
}

async fn filled(account: &Account) -> ContainerClient<Notes> {
    let notes: ContainerClient<Notes> = account.open("notes").await;
    for number in 0..NOTES {
        notes.run(note(number).create()).await.unwrap();
    }
    for name in ["red", "bike"] {
        let author = format!("author-{}", name.len());
        let tag = Tag {
            author,
            name: name.to_owned(),
            body: "red bike".to_owned(),
        };
        notes.run(tag.create()).await.unwrap();
    }
    notes
}

fn all() -> impl Iterator<Item = Note> {
    (0..NOTES).map(note)
}

fn public() -> Query<Note> {
    Query::across_partitions().filter(Note::IS_PUBLIC.eq(true))
}

#[tokio::test]
async fn computed_properties_filter_sort_and_project_across_partitions() {
    let account = Account::new().await;
    let notes = filled(&account).await;
    let mut expected: Vec<String> = all().map(|note| note.title.to_lowercase()).collect();
    expected.sort();
    let query = Query::<Note>::across_partitions();
    for sorted in [
        query.clone().order_by(Note::TITLE_LOWER.asc()),
        query.clone().order_by(Note::BY_TITLE),
    ] {
        let rows = notes.query(sorted).page_size(7).all().await.unwrap();
        let titles: Vec<String> = rows.iter().map(|row| row.title.to_lowercase()).collect();
        assert_eq!(titles, expected);
    }
    let odd = query.clone().filter(Note::TITLE_LOWER.starts_with("odd"));
    assert_eq!(notes.query(odd.count()).one().await.unwrap(), NOTES / 2);
    let three = Query::<Note>::across_partitions().filter(Note::TITLE_LOWER.eq("odd 03"));
    let twice = ok!(notes.query(three.values(Note::NUMBER_TWICE)).all());
    assert_eq!(twice, [6]);
}

fn distance(function: &str, a: &[f32], b: &[f32]) -> f64 {
    let pairs = || a.iter().zip(b).map(|(a, b)| (f64::from(*a), f64::from(*b)));
    let product = pairs().map(|(a, b)| a * b).sum::<f64>();
    let length = |of: &[f32]| of.iter().map(|a| f64::from(*a).powi(2)).sum::<f64>().sqrt();
    match function {
        "cosine" => product / (length(a) * length(b)),
        "product" => product,
        _ => pairs().map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt(),
    }
}

/// Sorts by score and returns the best ten, as number and score.
fn best(mut scored: Vec<(u64, f64)>, smallest_first: bool) -> Vec<(u64, f64)> {
    scored.sort_by(|a, b| {
        if smallest_first {
            a.1.total_cmp(&b.1)
        } else {
            b.1.total_cmp(&a.1)
        }
    });
    scored.truncate(10);
    scored
}

fn assert_hits(what: &str, hits: &[Hit<Note>], expected: &[(u64, f64)]) {
    let numbers: Vec<u64> = hits.iter().map(|hit| hit.document.number).collect();
    let expected_numbers: Vec<u64> = expected.iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, expected_numbers, "{what}");
    for (hit, (number, score)) in hits.iter().zip(expected) {
        let error = (hit.score - score).abs();
        assert!(
            error <= 1e-9 * score.abs().max(1.0),
            "{what}, {number}: {} {score}",
            hit.score
        );
    }
}

/// Returns a vector of a note.
type Of = fn(&Note) -> Option<&Vec<f32>>;

#[tokio::test]
async fn the_nearest_documents_are_those_of_an_exhaustive_search() {
    let account = Account::new().await;
    let notes = filled(&account).await;
    let wanted = vector(777);
    let cases: [(&str, Rank<Note>, Of); 3] = [
        ("cosine", Note::COSINE.nearest(&wanted), |note| {
            Some(&note.cosine)
        }),
        ("product", Note::PRODUCT.nearest(&wanted), |note| {
            Some(&note.product)
        }),
        ("place", Note::PLACE.nearest(wanted.clone()), |note| {
            note.place.as_ref()
        }),
    ];
    for (function, rank, of) in cases {
        let exhaustive = |among: &dyn Fn(&Note) -> bool| {
            let notes = all().filter(|note| among(note));
            let scored = notes
                .filter_map(|note| Some((note.number, distance(function, of(&note)?, &wanted))));
            best(scored.collect(), function == "place")
        };
        let hits = ok!(notes.search(public().search(rank.clone(), 10)));
        assert_hits(function, &hits, &exhaustive(&|note| note.is_public));
        let one = Query::in_partition("author-3").search(rank, 10);
        let hits = notes.search(one).await.unwrap();
        assert_hits(
            function,
            &hits,
            &exhaustive(&|note| note.author == "author-3"),
        );
    }
}

fn real(number: usize) -> f64 {
    f64::from(u32::try_from(number).unwrap())
}

/// The BM25 scores of these words among all documents of the container, which are the notes and two
/// tags.
fn word_scores(wanted: &[&str]) -> impl Fn(&Note) -> f64 {
    let count = |text: &str, word: &str| text.split(' ').filter(|found| *found == word).count();
    let mut texts: Vec<String> = all().filter_map(|note| note.body).collect();
    texts.extend(["red bike".to_owned(), "red bike".to_owned()]);
    let documents = real(usize::try_from(NOTES).unwrap() + 2);
    let words: usize = texts.iter().map(|text| text.split(' ').count()).sum();
    let average = real(words) / documents;
    let wanted: Vec<String> = wanted.iter().map(|&word| word.to_owned()).collect();
    move |note| {
        let Some(own) = &note.body else { return 0.0 };
        let length = 0.25 + 0.75 * real(own.split(' ').count()) / average;
        let part = |word: &String| {
            let hits = real(texts.iter().filter(|text| count(text, word) > 0).count());
            let found = real(count(own, word));
            (1.0 + (documents - hits + 0.5) / (hits + 0.5)).ln() * found * 2.2
                / (found + 1.2 * length)
        };
        wanted.iter().map(part).sum()
    }
}

#[tokio::test]
async fn words_are_ranked_by_statistics_of_all_partitions() {
    let account = Account::new().await;
    let notes = filled(&account).await;
    let score = word_scores(&["red", "bike"]);
    let has = |note: &Note| {
        let body = note.body.as_deref().unwrap_or_default();
        body.split(' ').any(|word| word == "red" || word == "bike")
    };
    let query = Query::across_partitions().filter(Note::BODY.contains_any_word(["Red", "bike"]));
    let found = notes.query(query.clone().count()).one().await.unwrap();
    assert_eq!(
        found,
        u64::try_from(all().filter(|note| has(note)).count()).unwrap()
    );

    let hits = notes
        .search(query.search(Note::BODY.ranked(["red", "bike"]), 10))
        .await
        .unwrap();
    let scores: Vec<f64> = hits.iter().map(|hit| hit.score).collect();
    assert!(scores.is_sorted_by(|a, b| a >= b), "{scores:?}");
    assert_eq!(hits.len(), 10);
    let exhaustive = all()
        .filter(has)
        .map(|note| (note.number, score(&note)))
        .collect();
    let expected = best(exhaustive, false);
    for (hit, (_, expected)) in hits.iter().zip(&expected) {
        // Documents with equal scores have no order.
        let own = score(&hit.document);
        assert!((hit.score - own).abs() < 1e-9, "{}: {own}", hit.score);
        assert!(
            (hit.score - expected).abs() < 1e-9,
            "{}: {expected}",
            hit.score
        );
    }
}

/// Adds what one order gives: equal scores have the same rank.
fn add_ranks(totals: &mut [(u64, f64)], weight: f64, score: impl Fn(u64) -> f64) {
    let mut scores: Vec<f64> = totals.iter().map(|(number, _)| score(*number)).collect();
    scores.sort_by(|a, b| b.total_cmp(a));
    scores.dedup();
    for (number, total) in totals {
        let own = score(*number);
        let rank = 1 + scores.iter().take_while(|other| **other > own).count();
        *total += weight / (60.0 + real(rank));
    }
}

#[tokio::test]
async fn several_scores_are_fused_as_by_an_exhaustive_search() {
    let account = Account::new().await;
    let notes = filled(&account).await;
    let wanted = vector(777);
    let words = word_scores(&["green", "hill"]);
    for (word_weight, place_weight) in [(1.0, 1.0), (3.0, 0.5)] {
        let mut totals: Vec<(u64, f64)> = all()
            .filter(|note| note.is_public)
            .map(|note| (note.number, 0.0))
            .collect();
        add_ranks(&mut totals, word_weight, |number| words(&note(number)));
        add_ranks(&mut totals, place_weight, |number| {
            // A note without a place comes last.
            let place = note(number).place;
            place.map_or(f64::NEG_INFINITY, |place| {
                -distance("place", &place, &wanted)
            })
        });
        let expected = best(totals, false);
        let about = Note::BODY.ranked(["green", "hill"]).weighted(word_weight);
        let near = Note::PLACE.nearest(wanted.clone()).weighted(place_weight);
        // The order of the scores has no meaning.
        let rank = if word_weight > 1.0 {
            near.and(about)
        } else {
            about.and(near)
        };
        let hits = notes.search(public().search(rank, 10)).await.unwrap();
        let scores: Vec<f64> = hits.iter().map(|hit| hit.score).collect();
        for (score, (number, expected)) in scores.iter().zip(&expected) {
            assert!(
                (score - expected).abs() < 1e-9,
                "{number}: {score} {expected}"
            );
        }
        assert_eq!(hits.len(), 10);
    }
}

#[tokio::test]
async fn a_container_without_search_is_extended() {
    use cdb_client::database::{BootstrapConfig, OnDifference};

    #[derive(Container)]
    enum Tags {
        Tag(Tag),
    }
    let account = Account::new().await;
    let _tags: ContainerClient<Tags> = account.open("notes").await;
    let differences = ok!(account.database.differences::<Notes>("notes"));
    let texts: Vec<String> = differences.iter().map(ToString::to_string).collect();
    for expected in [
        "its computed property `titleLower` is missing, the model's is `SELECT VALUE LOWER(c[\"title\"]) FROM c`",
        "its vectors at `/cosine` are not declared, the model's have 4 dimensions of Float32, compared by Cosine",
        "its full-text path `/body` is missing, the model's is in en-US",
        "the vector index of `/place` is missing",
        "the full-text index of `/body` is missing",
    ] {
        assert!(
            texts.iter().any(|text| text.starts_with(expected)),
            "{expected}: {texts:#?}"
        );
    }
    let config = BootstrapConfig::default().with_on_difference(OnDifference::Extend);
    let notes: ContainerClient<Notes> = account.database.bootstrap("notes", config).await.unwrap();
    let left = ok!(account.database.differences::<Notes>("notes"));
    assert!(left.is_empty(), "{left:#?}");
    notes.run(note(1).create()).await.unwrap();
    let query = Query::<Note>::across_partitions().filter(Note::TITLE_LOWER.eq("odd 01"));
    assert_eq!(notes.query(query.count()).one().await.unwrap(), 1);
}

#[tokio::test]
async fn a_changed_expression_is_replaced_on_demand_only() {
    use cdb_client::database::{BootstrapConfig, ContainerChange, OnDifference};

    let account = Account::new().await;
    let notes = filled(&account).await;
    let mut other = Notes::definition();
    other.computed_properties[1].query = "SELECT VALUE UPPER(c[\"title\"]) FROM c".to_owned();
    let change = ContainerChange::default().with_search_of(&other);
    ok!(account.database.change_container("notes", &change));
    let query = || {
        let odd = Query::<Note>::across_partitions().filter(Note::TITLE_LOWER.starts_with("odd"));
        notes.query(odd.count()).one()
    };
    assert_eq!(query().await.unwrap(), 0);

    // A bootstrap does not change the meaning of what another program may query for.
    let config = BootstrapConfig::default().with_on_difference(OnDifference::Extend);
    let _: ContainerClient<Notes> = account.database.bootstrap("notes", config).await.unwrap();
    assert_eq!(query().await.unwrap(), 0);
    let left = ok!(account.database.differences::<Notes>("notes"));
    assert_eq!(left.len(), 1, "{left:?}");

    let change = ContainerChange::default().with_search_of(&Notes::definition());
    ok!(account.database.change_container("notes", &change));
    assert_eq!(query().await.unwrap(), NOTES / 2);
    assert_eq!(
        account
            .database
            .differences::<Notes>("notes")
            .await
            .unwrap(),
        []
    );
}
