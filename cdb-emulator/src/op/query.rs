//! Queries: scope, plan, rows, page.

use std::collections::HashMap;
use std::time::Instant;

use serde::Deserialize;
use serde_json::{Value, json};

use super::continuation::Binding;
use super::run::{Page, Run};
use super::scope::Reach;
use super::touched::{Times, account};
use super::visit::Visit;
use super::{container, page_size};
use crate::error::ServiceError;
use crate::index_use::IndexUse;
use crate::plan;
use crate::route::flag;
use crate::service::{Answer, Asked, Service, now};
use crate::sql::ast::Select;
use crate::sql::{self, Context};
use crate::store::{Container, catalog};

/// Rows per page when the caller leaves it to the service.
const PAGE: usize = 1000;

/// A query as it is sent.
#[derive(Debug, Deserialize)]
pub(super) struct Sent {
    pub(super) query: String,
    #[serde(default)]
    parameters: Vec<Parameter>,
}

impl Sent {
    /// What its expressions can reach.
    pub(super) fn context(&self) -> Context {
        Context::new(self.parameters(), now())
    }

    /// The parameters by their names.
    pub(super) fn parameters(&self) -> HashMap<String, Value> {
        let parameters = self.parameters.iter();
        parameters
            .map(|parameter| (parameter.name.clone(), parameter.value.clone()))
            .collect()
    }
}

#[derive(Debug, Deserialize)]
struct Parameter {
    name: String,
    value: Value,
}

/// `POST …/docs` with a query.
pub(super) fn query(
    service: &Service,
    asked: &Asked,
    (db, coll): (&str, &str),
) -> Result<Answer, ServiceError> {
    let sent: Sent = serde_json::from_slice(&asked.body)?;
    service.note_query(&sent.query);
    let begun = Instant::now();
    let select = sql::parse(&sent.query)?;
    let times = Times {
        begun,
        compiled: begun.elapsed(),
    };
    let context = sent.context();
    let connection = service.store.read()?;
    let container = container(&connection, asked, (db, coll))?;
    let reach = Reach::of(&asked.headers, &container)?;
    across(asked, &select, &reach)?;
    let binding = Binding::of(asked, &reach);
    let position = binding.position(asked)?;
    let ranges = reach.ranges.len();
    let visit = Visit::read(service, &connection, asked, &container, reach.ranges)?;
    let index = IndexUse::of(&select, container.policy());
    let run = Run {
        connection: &connection,
        container: &container,
        context: &context,
        reach: reach.rows,
        joined: index.joined,
        limit: page_size(asked)?.unwrap_or(PAGE),
    };
    let page = run.page(&select, position)?;
    if let Some(path) = page.wish.clone() {
        service.store.learn(container.clone(), path);
    }
    let last = catalog::last_lsn(&connection)?;
    let (touched, rows) = (page.touched, page.rows.len());
    let answer = account(
        asked,
        answer(page, &container, &binding)?,
        (touched, &index),
        (ranges, rows),
        times,
    );
    Ok(visit.end(answer, last))
}

fn answer(page: Page, container: &Container, binding: &Binding) -> Result<Answer, ServiceError> {
    let count = page.rows.len();
    let body = json!({ "_rid": container.rid(), "Documents": page.rows, "_count": count });
    let mut answer = Answer::json(200, &body).with("x-ms-item-count", count.to_string());
    if let Some(next) = page.next {
        answer = answer.with("x-ms-continuation", binding.token(next)?);
    }
    Ok(answer)
}

/// A query of everything has to say so, and has to be one that the gateway can answer without a merge.
fn across(asked: &Asked, select: &Select, reach: &Reach<'_>) -> Result<(), ServiceError> {
    if !reach.everything {
        return Ok(());
    }
    if !flag(&asked.headers, "x-ms-documentdb-query-enablecrosspartition") {
        return Err(ServiceError::bad_request(
            "Cross partition query is required but disabled. Please set \
             x-ms-documentdb-query-enablecrosspartition to true, specify \
             x-ms-documentdb-partitionkey, or revise your query to avoid this exception.",
        ));
    }
    plan::gateway(select)
}
