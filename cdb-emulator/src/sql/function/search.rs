//! Vector and full-text search. A text is split into words: runs of letters and digits in lower
//! case, without stems and stop words.

use serde_json::Value;

use super::call::{Call, Function, finite};
use crate::protocol::ServiceError;

/// The parameters of BM25.
const SATURATION: f64 = 1.2;
const LENGTH_WEIGHT: f64 = 0.75;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("VECTORDISTANCE", 2, 4, |call| {
        let (a, b) = (vector(call, 0)?, vector(call, 1)?);
        if a.len() != b.len() {
            return None;
        }
        let name = call
            .value(3)
            .and_then(|options| options["distanceFunction"].as_str());
        finite(distance(name.unwrap_or("cosine"), &a, &b)?)
    }),
    Function::new("FULLTEXTCONTAINS", 2, 2, |call| {
        Some(contains(&words(call.text(0)?), call.text(1)?).into())
    }),
    Function::new("FULLTEXTCONTAINSALL", 2, usize::MAX, |call| {
        let text = words(call.text(0)?);
        let phrases: Option<Vec<&str>> = (1..call.len()).map(|at| call.text(at)).collect();
        Some(
            phrases?
                .into_iter()
                .all(|phrase| contains(&text, phrase))
                .into(),
        )
    }),
    Function::new("FULLTEXTCONTAINSANY", 2, usize::MAX, |call| {
        let text = words(call.text(0)?);
        let phrases: Option<Vec<&str>> = (1..call.len()).map(|at| call.text(at)).collect();
        Some(
            phrases?
                .into_iter()
                .any(|phrase| contains(&text, phrase))
                .into(),
        )
    }),
    Function::new("FULLTEXTSCORE", 2, usize::MAX, only_ranks),
    Function::new("RRF", 2, usize::MAX, only_ranks),
    // The parts of a query plan: the client inserts the statistics of all partitions.
    Function::new("_FULLTEXTSCORE", 5, 5, score),
    Function::new("_FULLTEXTWORDCOUNT", 1, 1, |call| {
        Some(words(call.text(0)?).len().into())
    }),
];

fn only_ranks(call: &Call<'_>) -> Option<Value> {
    call.checked(Err(ServiceError::bad_request(
        "FullTextScore and RRF can only be used in ORDER BY RANK.",
    )))
}

fn vector(call: &Call<'_>, at: usize) -> Option<Vec<f64>> {
    call.items(at)?.iter().map(Value::as_f64).collect()
}

/// Returns the similarity or the distance of two vectors of equal length.
fn distance(name: &str, a: &[f64], b: &[f64]) -> Option<f64> {
    let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    Some(match &*name.to_ascii_lowercase() {
        "cosine" => product(a, b) / (product(a, a) * product(b, b)).sqrt(),
        "dotproduct" => product(a, b),
        "euclidean" => a
            .iter()
            .zip(b)
            .map(|(a, b)| (a - b).powi(2))
            .sum::<f64>()
            .sqrt(),
        _ => return None,
    })
}

/// Splits a text into words.
fn words(text: &str) -> Vec<String> {
    let parts = text.split(|c: char| !c.is_alphanumeric());
    parts
        .filter(|part| !part.is_empty())
        .map(str::to_lowercase)
        .collect()
}

/// Counts the places where the words of a phrase follow each other.
fn count(text: &[String], phrase: &str) -> usize {
    let phrase = words(phrase);
    if phrase.is_empty() {
        return 0;
    }
    text.windows(phrase.len())
        .filter(|window| *window == phrase)
        .count()
}

fn contains(text: &[String], phrase: &str) -> bool {
    count(text, phrase) > 0
}

/// Returns the BM25 score of a text for phrases, by the number of documents, of their words, and of
/// the documents with each phrase.
fn score(call: &Call<'_>) -> Option<Value> {
    let (phrases, hits) = (call.items(1)?, call.items(4)?);
    let (documents, all_words) = (call.number(2)?, call.number(3)?);
    let text = call.text(0).map(words).unwrap_or_default();
    let average = (all_words / documents.max(1.0)).max(f64::MIN_POSITIVE);
    let real = |number: usize| u32::try_from(number).map_or(f64::MAX, f64::from);
    let length = 1.0 - LENGTH_WEIGHT + LENGTH_WEIGHT * real(text.len()) / average;
    let scores = phrases.iter().zip(hits).map(|(phrase, hits)| {
        let hits = hits.as_f64()?;
        let rarity = (1.0 + (documents - hits + 0.5) / (hits + 0.5)).ln();
        let found = real(count(&text, phrase.as_str()?));
        Some(rarity * found * (SATURATION + 1.0) / (found + SATURATION * length))
    });
    let scores: Option<Vec<f64>> = scores.collect();
    finite(scores?.into_iter().sum())
}
