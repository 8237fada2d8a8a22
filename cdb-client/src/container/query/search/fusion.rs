//! Reciprocal rank fusion: one order from the orders of several scores.
//!
//! A document at rank r of a score gets weight / (60 + r); documents with equal scores have the
//! same rank (Cormack, Clarke, Büttcher 2009; .NET client, `HybridSearchCrossPartitionQueryPipelineStage`).

use std::collections::HashSet;

use cdb_model::shape::Direction;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::error::{Error, Result};

const RANK_CONSTANT: f64 = 60.0;

/// The score of a document for which the service returns none.
const NO_SCORE: f64 = f64::NEG_INFINITY;

/// The direction and the weight of a score.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scores {
    pub(super) direction: Direction,
    pub(super) weight: f64,
}

impl Scores {
    /// A document without the text or vector comes last in both directions. The service's plans
    /// give it a negative score (.NET client, `QueryPlanBaselineTests.Top.xml`: -1), which no
    /// distance is.
    fn or_worst(&self, score: f64) -> f64 {
        match self.direction {
            Direction::Ascending if score < 0.0 => f64::INFINITY,
            _ => score,
        }
    }
}

/// The documents that any score has found.
#[derive(Debug)]
pub(super) struct Fusion {
    scores: Vec<Scores>,
    known: HashSet<String>,
    found: Vec<Found>,
}

#[derive(Debug)]
struct Found {
    document: Box<RawValue>,
    /// By all scores.
    by: Vec<f64>,
    total: f64,
}

#[derive(Deserialize)]
struct Row<'a> {
    #[serde(rename = "_rid")]
    rid: String,
    #[serde(borrow)]
    payload: Payload<'a>,
    #[serde(default, rename = "orderByItems")]
    sorted_by: Vec<SortedBy>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Payload<'a> {
    #[serde(borrow)]
    payload: &'a RawValue,
    component_scores: Vec<Option<f64>>,
}

/// A value that a component is sorted by: its score.
#[derive(Deserialize)]
struct SortedBy {
    item: Option<f64>,
}

impl Row<'_> {
    /// Returns all scores. The service may leave them out (Rust driver, `parse_result` of hybrid
    /// search).
    fn scores(&self, count: usize) -> Result<Vec<Option<f64>>> {
        match (&*self.payload.component_scores, count) {
            ([], 1) => Ok(vec![self.sorted_by.first().and_then(|score| score.item)]),
            ([], _) => Ok(vec![None; count]),
            (scores, _) if scores.len() == count => Ok(scores.to_vec()),
            _ => Err(Error::protocol("a row of a search lacks scores")),
        }
    }
}

impl Fusion {
    pub(super) fn new(scores: Vec<Scores>) -> Self {
        Self {
            scores,
            known: HashSet::new(),
            found: Vec::new(),
        }
    }

    /// Adds the rows of a component, each with all scores of its document.
    ///
    /// # Errors
    /// When a row has another form than the plan says.
    pub(super) fn add(&mut self, rows: &[Box<RawValue>]) -> Result<()> {
        for row in rows {
            let row: Row<'_> = serde_json::from_str(row.get()).map_err(Error::decode)?;
            let scores = row.scores(self.scores.len())?.into_iter().zip(&self.scores);
            let by = scores.map(|(own, score)| score.or_worst(own.unwrap_or(NO_SCORE)));
            let by = by.collect();
            if self.known.insert(row.rid) {
                self.found.push(Found {
                    document: row.payload.payload.to_owned(),
                    by,
                    total: 0.0,
                });
            }
        }
        Ok(())
    }

    /// Returns the best documents, best first. A single score is not changed; several are fused.
    pub(super) fn into_best(mut self, top: Option<u32>) -> Vec<(Box<RawValue>, f64)> {
        let scores = std::mem::take(&mut self.scores);
        match &*scores {
            [only] => {
                sort(&mut self.found, 0, only.direction);
                for found in &mut self.found {
                    found.total = found.by[0];
                }
            }
            several => {
                for (at, score) in several.iter().enumerate() {
                    self.rank(at, *score);
                }
                self.found.sort_by(|a, b| b.total.total_cmp(&a.total));
            }
        }
        let top = top.and_then(|top| usize::try_from(top).ok());
        let best = self.found.into_iter().take(top.unwrap_or(usize::MAX));
        best.map(|found| (found.document, found.total)).collect()
    }

    /// Adds to the totals what one score gives.
    fn rank(&mut self, at: usize, score: Scores) {
        sort(&mut self.found, at, score.direction);
        let (mut rank, mut before) = (0.0, None);
        for found in &mut self.found {
            let own = found.by[at];
            if before != Some(own) {
                rank += 1.0;
            }
            before = Some(own);
            found.total += score.weight / (RANK_CONSTANT + rank);
        }
    }
}

/// Sorts by one score. Documents with equal scores keep their order, which is that of the
/// partitions.
fn sort(found: &mut [Found], at: usize, direction: Direction) {
    found.sort_by(|a, b| match direction {
        Direction::Ascending => a.by[at].total_cmp(&b.by[at]),
        Direction::Descending => b.by[at].total_cmp(&a.by[at]),
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(rid: &str, scores: &str) -> Box<RawValue> {
        let json = format!(
            r#"{{"_rid": "{rid}", "payload": {{"payload": "{rid}", "componentScores": {scores}}}}}"#
        );
        RawValue::from_string(json).unwrap()
    }

    fn order(scores: &[(Direction, f64)], rows: &[Box<RawValue>]) -> Vec<(String, f64)> {
        let scores = scores
            .iter()
            .map(|&(direction, weight)| Scores { direction, weight });
        let mut fusion = Fusion::new(scores.collect());
        fusion.add(rows).unwrap();
        fusion.add(rows).unwrap();
        let best = fusion.into_best(Some(3)).into_iter();
        best.map(|(json, score)| (serde_json::from_str(json.get()).unwrap(), score))
            .collect()
    }

    #[test]
    fn a_document_counts_once_with_its_rank_by_each_score() {
        let rows = [
            row("a", "[3.0, 9.0]"),
            row("b", "[2.0, 1.0]"),
            row("c", "[2.0, 2.0]"),
            row("d", "[null, 5.0]"),
        ];
        let both = [(Direction::Descending, 1.0), (Direction::Ascending, 1.0)];
        let expected = [
            ("b", 1.0 / 62.0 + 1.0 / 61.0),
            ("c", 2.0 / 62.0),
            ("a", 1.0 / 61.0 + 1.0 / 64.0),
        ];
        for ((id, score), (expected_id, expected)) in order(&both, &rows).iter().zip(expected) {
            assert_eq!(id, expected_id);
            assert!((score - expected).abs() < 1e-12, "{id}: {score}");
        }
        let weighted = [(Direction::Descending, 5.0), (Direction::Ascending, 1.0)];
        assert_eq!(order(&weighted, &rows)[0].0, "a");
    }

    #[test]
    fn a_document_without_a_score_comes_last_in_both_directions() {
        let rows = [row("without", "[-1]"), row("a", "[2.0]"), row("b", "[1.0]")];
        for (direction, expected) in [
            (Direction::Ascending, ["b", "a", "without"]),
            (Direction::Descending, ["a", "b", "without"]),
        ] {
            let found = order(&[(direction, 1.0)], &rows);
            assert_eq!(found.iter().map(|(id, _)| id).collect::<Vec<_>>(), expected);
        }
    }

    #[test]
    fn a_row_without_scores_has_the_one_that_it_is_sorted_by() {
        let rows = ["1.5", "2.5"].map(|score| {
            let json = format!(
                r#"{{"_rid": "{score}", "orderByItems": [{{"item": {score}}}], "payload": {{"payload": "{score}", "componentScores": []}}}}"#
            );
            RawValue::from_string(json).unwrap()
        });
        let expected = [("2.5".to_owned(), 2.5), ("1.5".to_owned(), 1.5)];
        assert_eq!(order(&[(Direction::Descending, 1.0)], &rows), expected);
        let both = [(Direction::Descending, 1.0), (Direction::Ascending, 1.0)];
        assert_eq!(order(&both, &rows).len(), 2);
    }

    #[test]
    fn one_score_is_returned_as_it_is() {
        let rows = [row("a", "[1.5]"), row("b", "[2.5]")];
        let expected = [("b".to_owned(), 2.5), ("a".to_owned(), 1.5)];
        assert_eq!(order(&[(Direction::Descending, 1.0)], &rows), expected);
    }

    #[test]
    fn a_row_without_all_scores_is_an_error() {
        let mut fusion = Fusion::new(Vec::new());
        assert!(fusion.add(&[row("a", "[1.0]")]).is_err());
    }
}
