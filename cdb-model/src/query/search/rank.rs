//! Scores of documents, by which a search sorts: distances of vectors and frequencies of words.

use std::marker::PhantomData;

use derive_where::derive_where;
use serde_json::Value;

use crate::document::{Document, Embedding, FullText, Path};
use crate::query::{Filter, Operand, TextField};
use crate::shape::{Direction, VectorDistance};
use crate::sql::{FullTextMatch, Predicate, RankTerm, Score, ValueError};

/// A score of documents of `D`, by which a search sorts: the distance of a vector, the frequency of
/// words, or a fusion of several.
///
/// ```
/// use cdb_model::{Container, Document, Query};
/// use cdb_model::query::search::SearchQuery;
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Document, Serialize, Deserialize)]
/// #[document(type = "note", id = "{number}")]
/// struct Note {
///     #[document(partition_key)]
///     author: String,
///     number: u64,
///     #[document(full_text)]
///     body: String,
///     #[document(vector(dimensions = 3))]
///     embedding: Vec<f32>,
/// }
///
/// #[derive(Container)]
/// enum Notes {
///     Note(Note),
/// }
///
/// /// The ten notes that are closest in meaning, or use these words.
/// fn similar(meaning: &Vec<f32>, words: &[&str]) -> SearchQuery<Note> {
///     let rank = Note::EMBEDDING.nearest(meaning).and(Note::BODY.ranked(words).weighted(0.5));
///     Query::across_partitions().search(rank, 10)
/// }
/// ```
#[derive_where(Clone, Debug)]
pub struct Rank<D> {
    pub(super) terms: Vec<RankTerm>,
    marker: PhantomData<fn() -> D>,
}

impl<D> Rank<D> {
    fn new(term: RankTerm) -> Self {
        Self {
            terms: vec![term],
            marker: PhantomData,
        }
    }

    /// Sorts by both scores: by the ranks of a document in both orders (reciprocal rank fusion).
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.terms.extend(other.terms);
        self
    }

    /// Sets the weight of these scores in a fusion; 1 by default. It has to be finite.
    #[must_use]
    pub fn weighted(mut self, weight: f64) -> Self {
        for term in &mut self.terms {
            term.weight = Some(weight);
        }
        self
    }
}

/// The marker of a path with vectors.
#[diagnostic::on_unimplemented(
    message = "this path of `{D}` has no vectors",
    label = "a search by distance needs vectors",
    note = "add `#[document(vector(dimensions = …))]` to the field"
)]
pub trait WithVectors<D> {}

impl<D> WithVectors<D> for Embedding {}

/// The marker of a path that a full-text index serves.
#[diagnostic::on_unimplemented(
    message = "no full-text index serves this path of `{D}`",
    label = "a search by words needs a full-text index",
    note = "add `#[document(full_text)]` to the field"
)]
pub trait WithWords<D> {}

impl<D, I> WithWords<D> for FullText<I> {}

impl<D: Document, V, I, M> Path<D, V, I, M> {
    /// Scores by the distance of the vector to `vector`, most similar first. Documents without a
    /// vector are not found. A vector with another number of dimensions is an error of the search.
    pub fn nearest(self, vector: impl Operand<V>) -> Rank<D>
    where
        I: WithVectors<D>,
    {
        let pointer = self.pointer();
        let shape = D::SHAPE.vectors.iter().find(|shape| shape.path == pointer);
        let expected = shape.map_or(0, |shape| shape.dimensions);
        let vector = vector.into_json();
        let invalid = match &vector {
            Ok(Value::Array(numbers)) => invalid_vector(numbers.len(), expected),
            Ok(_) => Some(format!(
                "it has no numbers, the field is declared with {expected}"
            )),
            Err(error) => Some(format!("it cannot be serialized as JSON: {error}")),
        };
        let direction = match shape.map(|shape| shape.distance) {
            Some(VectorDistance::Euclidean) => Direction::Ascending,
            _ => Direction::Descending,
        };
        Rank::new(RankTerm {
            pointer,
            score: Score::Distance(vector.unwrap_or_default()),
            weight: None,
            direction,
            invalid: invalid.map(|reason| ValueError {
                path: pointer,
                reason,
            }),
        })
    }
}

/// Returns why a vector cannot be searched for.
fn invalid_vector(length: usize, expected: u32) -> Option<String> {
    (u32::try_from(length) != Ok(expected))
        .then(|| format!("it has {length} numbers, the field is declared with {expected}"))
}

impl<D: Document, V: TextField, I, M> Path<D, V, I, M> {
    /// Scores by the frequency of these words and phrases (BM25), most frequent first. Documents
    /// without any of them come last; [`contains_any_word`](Self::contains_any_word) excludes them.
    pub fn ranked<W: AsRef<str>>(self, words: impl IntoIterator<Item = W>) -> Rank<D>
    where
        I: WithWords<D>,
    {
        let words = words.into_iter().map(|word| word.as_ref().to_owned());
        let words: Vec<String> = words.collect();
        Rank::new(RankTerm {
            pointer: self.pointer(),
            weight: None,
            direction: Direction::Descending,
            invalid: words.is_empty().then(|| no_words(self.pointer())),
            score: Score::Words(words),
        })
    }

    /// The text contains all of these words and phrases, by the rules of its language: `run` finds
    /// `running`.
    pub fn contains_all_words<W: AsRef<str>>(self, words: impl IntoIterator<Item = W>) -> Filter<D>
    where
        I: WithWords<D>,
    {
        self.words(FullTextMatch::All, words)
    }

    /// The text contains at least one of these words and phrases, by the rules of its language.
    pub fn contains_any_word<W: AsRef<str>>(self, words: impl IntoIterator<Item = W>) -> Filter<D>
    where
        I: WithWords<D>,
    {
        self.words(FullTextMatch::Any, words)
    }

    fn words<W: AsRef<str>>(
        self,
        matches: FullTextMatch,
        words: impl IntoIterator<Item = W>,
    ) -> Filter<D> {
        let words: Vec<_> = words
            .into_iter()
            .map(|word| Value::from(word.as_ref()))
            .collect();
        Filter::from_predicate(if words.is_empty() {
            Predicate::Invalid(no_words(self.pointer()))
        } else {
            Predicate::FullText(self.pointer().to_owned(), matches, words)
        })
    }
}

fn no_words(path: &'static str) -> ValueError {
    ValueError {
        path,
        reason: "there are no words to search for".to_owned(),
    }
}
