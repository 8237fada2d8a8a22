//! Searches: the documents of a query with the best scores.

use super::rank::Rank;
use crate::container::Container;
use crate::document::{DecodeError, Stored};
use crate::query::statement::{RowForm, SortKey, Statement};
use crate::query::{QueriedIn, Query, Queryable};
use crate::sql::{self, RankTerm, Score, ValueError};

/// A search: the documents of a query with the best scores. A client executes it.
#[derive(Clone, Debug)]
pub struct SearchQuery<D> {
    query: Query<D>,
    rank: Rank<D>,
    top: u32,
}

/// A found document.
#[derive(Clone, Debug)]
pub struct Hit<D> {
    /// The document.
    pub document: Stored<D>,
    /// The score: the distance of the vectors, the BM25 score of the words, or the sum of a fusion.
    pub score: f64,
}

impl<D: Queryable> Query<D> {
    /// Returns the documents with the best scores instead of all, at most `top` of them. Replaces the
    /// order and the limit of the query.
    pub fn search(self, rank: Rank<D>, top: u32) -> SearchQuery<D> {
        SearchQuery {
            query: self,
            rank,
            top,
        }
    }
}

/// How a client executes a search.
#[derive(Clone, Debug, PartialEq)]
pub enum SearchStatement {
    /// By one vector: a query whose values are `{"document": …, "score": …}`.
    ByVector(Statement),
    /// By words, or by several scores: the service's gateway plans the query, because the scores of
    /// words depend on all partitions. The rows are documents.
    Planned(Statement),
}

impl<D: Queryable> SearchQuery<D> {
    /// Builds the statement.
    ///
    /// # Errors
    /// When a value cannot be serialized as JSON, a vector has another number of dimensions than
    /// its field, or there are no words.
    pub fn statement<C: Container>(&self) -> Result<SearchStatement, ValueError>
    where
        D: QueriedIn<C>,
    {
        let terms = &self.rank.terms;
        if let Some(error) = terms.iter().find_map(RankTerm::error) {
            return Err(error);
        }
        let condition = self.query.sent_condition();
        let (sql, parameters) =
            sql::search(&condition, C::DISCRIMINATOR, &self.rank.terms, self.top)?;
        let statement = |order, form| Statement {
            sql,
            parameters,
            scope: self.query.parts.scope.clone(),
            order,
            top: Some(self.top),
            form,
        };
        Ok(match &**terms {
            [term] if matches!(term.score, Score::Distance(_)) => {
                let key = SortKey {
                    pointer: term.pointer.to_owned(),
                    direction: term.direction,
                };
                SearchStatement::ByVector(statement(vec![key], RowForm::ValueWithKeys))
            }
            _ => SearchStatement::Planned(statement(Vec::new(), RowForm::Document)),
        })
    }

    /// Reads a found document.
    ///
    /// # Errors
    /// When the row does not match its type.
    pub fn read_hit<C: Container>(&self, json: &str, score: f64) -> Result<Hit<D>, DecodeError>
    where
        D: QueriedIn<C>,
    {
        let document = D::read_stored(json)?;
        Ok(Hit { document, score })
    }
}
