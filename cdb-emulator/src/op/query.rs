//! Queries: scope, plan, rows, page.

use std::collections::HashMap;
use std::time::Instant;

use rusqlite::types::Value as Sql;
use serde::Deserialize;
use serde_json::{Value, json};

use super::continuation::{Binding, Position};
use super::scope::{Reach, RowScope};
use super::touched::{Times, Touched, account};
use super::visit::Visit;
use super::{container, page_size};
use crate::error::ServiceError;
use crate::index_use::IndexUse;
use crate::plan::{self, Pushdown};
use crate::route::flag;
use crate::service::{Answer, Asked, Service, now, now_secs};
use crate::sql::ast::{Expr, Select};
use crate::sql::eval::Scope;
use crate::sql::{self, Context, rows};
use crate::store::{Container, catalog};

/// Rows per page when the caller leaves it to the service.
const PAGE: usize = 1000;
/// Largest page in bytes.
const PAGE_BYTES: usize = 4 * 1024 * 1024;

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
    plan::sort_is_indexed(&select, container.policy())?;
    let mut pushdown = plan::pushdown(&select, context.parameters(), container.policy());
    let reach = Reach::of(&asked.headers, &container)?;
    across(asked, &select, &reach)?;
    let binding = Binding::of(asked, &reach);
    let position = binding.position(asked)?;
    pushdown.restrict(reach.rows);
    let ranges = reach.ranges.len();
    let visit = Visit::read(service, &connection, asked, &container, reach.ranges)?;
    let index = IndexUse::of(&select, container.policy());
    let run = Run {
        connection: &connection,
        container: &container,
        select: &select,
        context: &context,
        judged: std::mem::take(&mut pushdown.judged),
        joined: index.joined,
        limit: page_size(asked)?.unwrap_or(PAGE),
    };
    let page = if plan::streams(&select) {
        run.stream(pushdown, position)?
    } else {
        run.whole(&pushdown, &position)?
    };
    let last = catalog::last_lsn(&connection)?;
    let (touched, rows) = (page.touched, page.rows.len());
    let answer = account(
        asked,
        answer(page, &binding)?,
        (touched, &index),
        (ranges, rows),
        times,
    );
    Ok(visit.end(answer, last))
}

fn answer(page: Page, binding: &Binding) -> Result<Answer, ServiceError> {
    let count = page.rows.len();
    let body = json!({ "_rid": "", "Documents": page.rows, "_count": count });
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

impl Pushdown {
    /// Lets the store hand out only rows of this part.
    fn restrict(&mut self, scope: RowScope) {
        self.condition.push_str(" AND ");
        self.condition.push_str(&scope.condition);
        self.parameters.extend(scope.parameters);
    }
}

/// One page.
#[derive(Debug, Default)]
struct Page {
    rows: Vec<Value>,
    next: Option<Position>,
    touched: Touched,
}

/// The condition for the store, which also leaves out what has expired.
fn condition(pushdown: &Pushdown) -> (String, Vec<Sql>) {
    let mut parameters = pushdown.parameters.clone();
    parameters.push(Sql::Integer(now_secs()));
    let condition = format!(
        "{} AND (expires IS NULL OR expires > ?)",
        pushdown.condition
    );
    (condition, parameters)
}

struct Run<'a> {
    connection: &'a rusqlite::Connection,
    container: &'a Container,
    select: &'a Select,
    context: &'a Context,
    /// What an index would have sorted out before a document is loaded.
    judged: Vec<Expr>,
    /// Whether an index also sorts out documents to which nothing is joined.
    joined: bool,
    limit: usize,
}

impl Run<'_> {
    /// The bindings of a row that meet the condition.
    fn matching(&self, body: &str, touched: &mut Touched) -> Result<Vec<Scope<'_>>, ServiceError> {
        let document: Value = serde_json::from_str(body)?;
        let scope = Scope::new(&self.select.alias, document, self.context);
        for judged in &self.judged {
            if !scope.holds(Some(judged))? {
                return Ok(Vec::new());
            }
        }
        let found = scope.matching(self.select)?;
        if !self.joined || !found.is_empty() {
            touched.document(body);
        }
        Ok(found)
    }

    /// Rows in the order of their keys, page by page from where the last one ended.
    fn stream(&self, mut pushdown: Pushdown, position: Position) -> Result<Page, ServiceError> {
        let top = rows::number(self.select.top.as_ref(), self.context.parameters())?;
        if let Some((pk, id)) = position.after {
            pushdown.condition.push_str(" AND (pk, id) > (?, ?)");
            pushdown.parameters.extend([Sql::Text(pk), Sql::Text(id)]);
        }
        let (condition, parameters) = condition(&pushdown);
        let mut page = Page::default();
        let mut bytes = 0;
        let left = top.map_or(usize::MAX, |top| top.saturating_sub(position.skip));
        let mut last = None;
        self.container
            .scan(self.connection, &condition, "pk, id", &parameters, |row| {
                if page.rows.len() >= left {
                    return Ok(false);
                }
                if page.rows.len() >= self.limit || bytes >= PAGE_BYTES {
                    page.next = Some(Position {
                        skip: position.skip.saturating_add(page.rows.len()),
                        after: last.take(),
                    });
                    return Ok(false);
                }
                for scope in self.matching(&row.body, &mut page.touched)? {
                    if let Some(value) = scope.project(self.select)? {
                        bytes += row.body.len();
                        page.rows.push(value);
                    }
                }
                last = Some((row.pk, row.id));
                Ok(true)
            })?;
        page.rows.truncate(left);
        Ok(page)
    }

    /// Rows that need all of them: sorted, folded, distinct. The page is cut from the whole.
    fn whole(&self, pushdown: &Pushdown, position: &Position) -> Result<Page, ServiceError> {
        let select = self.select;
        let parameters = self.context.parameters();
        let offset = rows::number(select.offset.as_ref(), parameters)?.unwrap_or(0);
        let most = rows::most(select, parameters)?;
        // The store sorts, and then only as many rows are read as the page needs.
        let simple = !select.aggregates() && select.group_by.is_empty() && !select.distinct;
        let enough = if simple && pushdown.order.is_some() {
            let end = position.skip.saturating_add(self.limit);
            let end = end.saturating_add(1).min(most);
            offset.saturating_add(end)
        } else {
            usize::MAX
        };
        let (scopes, touched) = self.collect(pushdown, enough)?;
        let rows = rows::finish(select, scopes, self.context)?;
        let mut rest = rows.into_iter().skip(position.skip);
        let mut page = Page {
            touched,
            ..Page::default()
        };
        let mut bytes = 0;
        while page.rows.len() < self.limit && bytes < PAGE_BYTES {
            let Some(row) = rest.next() else { break };
            bytes += row.to_string().len();
            page.rows.push(row);
        }
        if rest.next().is_some() {
            page.next = Some(Position {
                skip: position.skip.saturating_add(page.rows.len()),
                after: None,
            });
        }
        Ok(page)
    }

    fn collect(
        &self,
        pushdown: &Pushdown,
        enough: usize,
    ) -> Result<(Vec<Scope<'_>>, Touched), ServiceError> {
        if self.select.alias.is_empty() {
            let rows = Scope::constant(self.context).matching(self.select)?;
            return Ok((rows, Touched::default()));
        }
        let (condition, parameters) = condition(pushdown);
        let order = pushdown.order.as_deref().unwrap_or("pk, id");
        let mut scopes = Vec::new();
        let mut touched = Touched::default();
        self.container
            .scan(self.connection, &condition, order, &parameters, |row| {
                scopes.extend(self.matching(&row.body, &mut touched)?);
                Ok(scopes.len() < enough)
            })?;
        // SQLite knows fewer types than the service, so its order is checked and where they differ mended.
        Ok((rows::sort(self.select, scopes)?, touched))
    }
}
