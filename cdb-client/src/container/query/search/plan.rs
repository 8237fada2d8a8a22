//! The gateway's plan of a search by words: the statistics and the components to query.
//!
//! Form: `HybridSearchQueryInfo` of the vendor's .NET client.

use cdb_model::query::statement::{RowForm, Statement};
use cdb_model::shape::Direction;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::fusion::Scores;
use crate::container::context::ContainerContext;
use crate::container::query::source::{QUERY, QueryRequest};
use crate::error::{Error, RequestKind, Result};
use crate::protocol::header;

/// The features of a plan that this client executes. Names: `QueryFeature.cs` of the vendor's .NET
/// client.
const FEATURES: &str = "CountIf,HybridSearch,NonStreamingOrderBy,OrderBy,Top,WeightedRankFusion";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    hybrid_search_query_info: Option<Plan>,
}

/// A plan.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Plan {
    global_statistics_query: Option<String>,
    #[serde(default)]
    requires_global_statistics: bool,
    component_query_infos: Vec<Component>,
    #[serde(default)]
    component_weights: Option<Vec<f64>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Component {
    rewritten_query: String,
    #[serde(default)]
    order_by: Vec<SortOrder>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
enum SortOrder {
    Ascending,
    Descending,
}

/// The statistics of the words in all documents.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Statistics {
    document_count: u64,
    full_text_statistics: Vec<OfText>,
}

/// The statistics of one text.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct OfText {
    #[serde(default)]
    total_word_count: u64,
    hit_counts: Vec<u64>,
}

impl Plan {
    /// Requests the plan of a statement.
    pub(super) async fn of(context: &ContainerContext, statement: &Statement) -> Result<Self> {
        let body = QueryRequest::new(statement, None, false)?.into_body();
        let request = context
            .items_request(RequestKind::Query, QUERY, body)
            .header(header::IS_QUERY, "True")
            .header(header::CROSS_PARTITION, "True")
            .header(header::IS_PLAN_REQUEST, "True")
            .header(header::QUERY_FEATURES, FEATURES)
            .header(header::QUERY_VERSION, "1.4");
        let answer: Answer = context.send(&request).await?.json()?;
        let plan = answer.hybrid_search_query_info;
        plan.ok_or_else(|| Error::protocol("the plan of a search has no components"))
    }

    /// Returns the query for the statistics of each partition.
    pub(super) fn statistics(&self, statement: &Statement) -> Option<Statement> {
        let sql = self.global_statistics_query.as_ref();
        let sql = sql.filter(|_| self.requires_global_statistics)?;
        Some(rewritten(statement, sql.clone()))
    }

    /// Returns the query of each component.
    ///
    /// # Errors
    /// When the plan needs statistics that it does not query for.
    pub(super) fn components(
        &self,
        statement: &Statement,
        statistics: Option<&Statistics>,
    ) -> Result<Vec<Statement>> {
        let components = self.component_query_infos.iter().map(|component| {
            // The vendor's clients insert `true` too (Python, `hybrid_search_aggregator.py`).
            let sql = component.rewritten_query.replace(FILTER, "true");
            let scores = self.component_query_infos.len();
            let sql = match statistics {
                Some(all) => all.insert_into(&sql, scores),
                None => sql,
            };
            if sql.contains("{documentdb-formattable") {
                return Err(Error::protocol(
                    "the plan of a search has an unknown placeholder",
                ));
            }
            Ok(rewritten(statement, sql))
        });
        components.collect()
    }

    /// Returns the direction and the weight of each score.
    pub(super) fn scores(&self) -> Vec<Scores> {
        let weights = self.component_weights.as_deref().unwrap_or_default();
        let components = self.component_query_infos.iter().enumerate();
        let scores = components.map(|(at, component)| Scores {
            direction: match component.order_by.first() {
                Some(SortOrder::Ascending) => Direction::Ascending,
                Some(SortOrder::Descending) | None => Direction::Descending,
            },
            weight: weights.get(at).copied().unwrap_or(1.0),
        });
        scores.collect()
    }
}

/// The placeholder of the rows that are left, from the first to the last.
const FILTER: &str = "{documentdb-formattableorderbyquery-filter}";

/// The start of each placeholder of statistics.
const PLACEHOLDER: &str = "{documentdb-formattablehybridsearchquery-";

impl Statistics {
    /// Replaces the placeholders of a component. They are numbered by the scores of the search; there
    /// are statistics of those by words only, in the same order (.NET client,
    /// `FormatComponentQueryTextWorkaround`).
    fn insert_into(&self, sql: &str, scores: usize) -> String {
        let place = |name: &str| format!("{PLACEHOLDER}{name}}}");
        let documents = self.document_count.to_string();
        let mut sql = sql.replace(&place("totaldocumentcount"), &documents);
        let mut statistics = self.full_text_statistics.iter();
        for at in 0..scores {
            let (words, hits) = (
                format!("totalwordcount-{at}"),
                format!("hitcountsarray-{at}"),
            );
            if !sql.contains(&place(&words)) {
                continue;
            }
            let Some(text) = statistics.next() else { break };
            let counts: Vec<String> = text.hit_counts.iter().map(u64::to_string).collect();
            sql = sql
                .replace(&place(&words), &text.total_word_count.to_string())
                .replace(&place(&hits), &format!("[{}]", counts.join(",")));
        }
        sql
    }
}

/// Adds up the statistics of all partitions.
///
/// # Errors
/// When a row has another form.
pub(super) fn merged(rows: &[Box<RawValue>]) -> Result<Statistics> {
    let mut all = Statistics::default();
    for row in rows {
        let part: Statistics = serde_json::from_str(row.get()).map_err(Error::decode)?;
        all.document_count += part.document_count;
        if all.full_text_statistics.is_empty() {
            all.full_text_statistics = part.full_text_statistics;
            continue;
        }
        for (sum, part) in all
            .full_text_statistics
            .iter_mut()
            .zip(part.full_text_statistics)
        {
            sum.total_word_count += part.total_word_count;
            for (sum, part) in sum.hit_counts.iter_mut().zip(part.hit_counts) {
                *sum += part;
            }
        }
    }
    Ok(all)
}

/// Returns a query of the plan. Its rows are not merged by an order, and the plan limits them.
fn rewritten(statement: &Statement, sql: String) -> Statement {
    Statement {
        sql,
        form: RowForm::Document,
        order: Vec::new(),
        top: None,
        ..statement.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(json: &str) -> Box<RawValue> {
        RawValue::from_string(json.to_owned()).unwrap()
    }

    #[test]
    fn statistics_of_partitions_are_added_and_inserted() {
        let rows = [
            row(
                r#"{"documentCount": 3, "fullTextStatistics": [{"totalWordCount": 10, "hitCounts": [1, 2]}]}"#,
            ),
            row(r#"{"documentCount": 2, "fullTextStatistics": [{"hitCounts": [0, 4]}]}"#),
        ];
        let statistics = merged(&rows).unwrap();
        // The first score is a distance, which has no statistics.
        let sql = "{documentdb-formattablehybridsearchquery-totaldocumentcount} \
                   {documentdb-formattablehybridsearchquery-totalwordcount-1} \
                   {documentdb-formattablehybridsearchquery-hitcountsarray-1}";
        assert_eq!(statistics.insert_into(sql, 2), "5 10 [1,6]");
    }
}
