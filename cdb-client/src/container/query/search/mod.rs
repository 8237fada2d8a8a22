//! Search by vectors and by words.
//!
//! A search by one vector is a query whose rows are merged by their scores. A search by words needs
//! statistics of all partitions, so the gateway plans it, and this client executes the plan as the
//! vendor's clients do.

mod fusion;
mod plan;

use cdb_model::Container;
use cdb_model::document::DecodeError;
use cdb_model::query::QueriedIn;
use cdb_model::query::search::{Hit, SearchQuery, SearchStatement};
use cdb_model::query::statement::{Fetch, Statement, ValueError};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::container::handle::ContainerClient;
use crate::error::{Error, Result};
use fusion::Fusion;
use plan::Plan;

impl<C: Container> ContainerClient<C> {
    /// Returns the documents with the best scores, best first.
    ///
    /// A search by one vector costs one query per physical partition. A search by words or by
    /// several scores costs one request for the plan, and for each score one query per physical
    /// partition; scores of words need one more for their statistics. In one logical partition the
    /// statistics are those of its documents (`FullTextScoreScope.Local` of the vendor's clients).
    ///
    /// ```
    /// use cdb_client::ContainerClient;
    /// use cdb_model::query::search::Hit;
    /// use cdb_model::{Container, Document, Query};
    /// use serde::{Deserialize, Serialize};
    ///
    /// #[derive(Document, Serialize, Deserialize)]
    /// #[document(type = "note", id = "{number}")]
    /// struct Note {
    ///     #[document(partition_key)]
    ///     author: String,
    ///     number: u64,
    ///     #[document(vector(dimensions = 3))]
    ///     meaning: Vec<f32>,
    /// }
    ///
    /// #[derive(Container)]
    /// enum Notes {
    ///     Note(Note),
    /// }
    ///
    /// async fn similar(notes: &ContainerClient<Notes>, to: &Note) -> cdb_client::Result<Vec<Hit<Note>>> {
    ///     let query = Query::across_partitions().search(Note::MEANING.nearest(&to.meaning), 10);
    ///     notes.search(query).await
    /// }
    /// ```
    ///
    /// # Errors
    /// When a vector has another number of dimensions than its field, there are no words, the
    /// service refuses the query, or a document does not match its type.
    pub async fn search<D: QueriedIn<C>>(&self, query: SearchQuery<D>) -> Result<Vec<Hit<D>>> {
        match query.statement::<C>().map_err(Error::encode)? {
            SearchStatement::ByVector(statement) => {
                self.query(ByVector { query, statement }).all().await
            }
            SearchStatement::Planned(statement) => self.search_by_plan(query, statement).await,
        }
    }

    async fn search_by_plan<D: QueriedIn<C>>(
        &self,
        query: SearchQuery<D>,
        statement: Statement,
    ) -> Result<Vec<Hit<D>>> {
        let plan = Plan::of(&self.context, &statement).await?;
        let statistics = match plan.statistics(&statement) {
            Some(partial) => Some(plan::merged(&self.query(Rows(partial)).all().await?)?),
            None => None,
        };
        let mut fusion = Fusion::new(plan.scores());
        for component in plan.components(&statement, statistics.as_ref())? {
            fusion.add(&self.query(Rows(component)).all().await?)?;
        }
        let best = fusion.into_best(statement.top);
        best.iter()
            .map(|(json, score)| query.read_hit::<C>(json.get(), *score))
            .collect::<Result<_, _>>()
            .map_err(Error::decode)
    }
}

/// A search by one vector.
struct ByVector<D> {
    query: SearchQuery<D>,
    statement: Statement,
}

/// A row of a search by one vector.
#[derive(Deserialize)]
struct Scored<'a> {
    #[serde(borrow)]
    document: &'a RawValue,
    score: f64,
}

impl<C: Container, D: QueriedIn<C>> Fetch<C> for ByVector<D> {
    type Row = Hit<D>;

    fn statement(&self) -> Result<Statement, ValueError> {
        Ok(self.statement.clone())
    }

    fn read_row(&self, json: &str) -> Result<Hit<D>, DecodeError> {
        let scored: Scored<'_> = serde_json::from_str(json).map_err(malformed)?;
        self.query
            .read_hit::<C>(scored.document.get(), scored.score)
    }
}

/// A query whose rows stay JSON.
struct Rows(Statement);

impl<C: Container> Fetch<C> for Rows {
    type Row = Box<RawValue>;

    fn statement(&self) -> Result<Statement, ValueError> {
        Ok(self.0.clone())
    }

    fn read_row(&self, json: &str) -> Result<Box<RawValue>, DecodeError> {
        RawValue::from_string(json.to_owned()).map_err(malformed)
    }
}

fn malformed(source: serde_json::Error) -> DecodeError {
    DecodeError::Malformed {
        document: "a row of a search",
        id: String::new(),
        reason: source,
    }
}
