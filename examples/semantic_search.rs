//! Search by meaning and by words: notes that are similar to a question, although they use other
//! words.
//!
//! A real program asks a model for the vectors. This one has a small table of words instead: each
//! word has a place in four topics, and the vector of a text is the sum of its words.
//!
//! `cargo run -p cdb-examples --bin semantic_search`

use cdb_emulator::Emulator;
use cdb_provider::client::{Bootstrap, ContainerClient, CosmosClient, MasterKey};
use cdb_provider::model::query::search::Hit;
use cdb_provider::model::{Container, Document, Query};
use serde::{Deserialize, Serialize};

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[derive(Document, Serialize, Deserialize)]
#[document(type = "note", id = "note:{number}")]
#[document(computed(length: u32 = "LENGTH({text})", index))]
struct Note {
    #[document(partition_key)]
    author: String,
    number: u64,
    #[document(full_text)]
    text: String,
    #[document(vector(dimensions = 4))]
    meaning: Vec<f32>,
}

#[derive(Container)]
enum Notes {
    Note(Note),
}

const NOTES: [(&str, &str); 6] = [
    ("ann", "The cat sleeps on the warm oven."),
    ("ann", "Bake the bread for forty minutes."),
    ("bob", "Two kittens play in the garden."),
    ("bob", "The train to Bern leaves at noon."),
    ("cid", "A puppy chases the cat."),
    ("cid", "Buy tickets for the tram."),
];

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let emulator = Emulator::builder().physical_partitions(2).start().await?;
    let client = CosmosClient::builder(emulator.endpoint())
        .credential(MasterKey::new(emulator.key())?)
        .build()?;
    let database = client.database("notebook");
    let notes: ContainerClient<Notes> = database
        .bootstrap("notes", Bootstrap::CreateIfMissing)
        .await?;
    for (number, (author, text)) in (1..).zip(NOTES) {
        let note = Note {
            author: author.to_owned(),
            number,
            text: text.to_owned(),
            meaning: meaning_of(text),
        };
        notes.run(note.create()).await?;
    }

    let question = "What does my pet do?";
    let near = Note::MEANING.nearest(meaning_of(question));
    let all = Query::<Note>::across_partitions;
    print(
        "closest to the question",
        &notes.search(all().search(near.clone(), 3)).await?,
    );

    let words = ["cat"];
    let about = all().filter(Note::TEXT.contains_any_word(words));
    let ranked = about.search(Note::TEXT.ranked(words), 3);
    print("with the word `cat`", &notes.search(ranked).await?);

    let both = near.and(Note::TEXT.ranked(words).weighted(2.0));
    let short = all().filter(Note::LENGTH.lt(30_u32));
    print(
        "both, up to 29 characters",
        &notes.search(short.search(both, 3)).await?,
    );
    Ok(())
}

fn print(what: &str, hits: &[Hit<Note>]) {
    println!("{what}:");
    for hit in hits {
        println!("  {:.3} {}", hit.score, hit.document.text);
    }
}

/// The words that this program knows, each with its place in the topics animals, home, food and
/// travel.
const WORDS: [(&str, [f32; 4]); 16] = [
    ("cat", [1.0, 0.4, 0.0, 0.0]),
    ("kittens", [1.0, 0.3, 0.0, 0.0]),
    ("puppy", [1.0, 0.3, 0.0, 0.0]),
    ("pet", [1.0, 0.4, 0.0, 0.0]),
    ("sleeps", [0.2, 0.5, 0.0, 0.0]),
    ("play", [0.5, 0.2, 0.0, 0.0]),
    ("chases", [0.5, 0.0, 0.0, 0.1]),
    ("oven", [0.0, 0.7, 0.5, 0.0]),
    ("garden", [0.1, 0.7, 0.1, 0.0]),
    ("bake", [0.0, 0.4, 1.0, 0.0]),
    ("bread", [0.0, 0.2, 1.0, 0.0]),
    ("train", [0.0, 0.0, 0.0, 1.0]),
    ("tram", [0.0, 0.0, 0.0, 1.0]),
    ("tickets", [0.0, 0.0, 0.0, 0.8]),
    ("leaves", [0.0, 0.1, 0.0, 0.6]),
    ("bern", [0.0, 0.1, 0.0, 0.7]),
];

/// Returns the sum of the known words of a text.
fn meaning_of(text: &str) -> Vec<f32> {
    let mut sum = vec![0.0; 4];
    let words = text.split(|c: char| !c.is_alphabetic());
    for word in words.map(str::to_lowercase) {
        let Some((_, place)) = WORDS.iter().find(|(known, _)| *known == word) else {
            continue;
        };
        for (sum, topic) in sum.iter_mut().zip(place) {
            *sum += topic;
        }
    }
    sum
}
