//! Queries: scope, plan, rows, page.

use std::collections::{HashMap, HashSet};
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
use crate::service::{Answer, Asked, Service, now_secs};
use crate::sql;
use crate::sql::ast::{Expr, Select};
use crate::sql::eval::{Scope, aggregate, by_keys};
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
    let parameters = sent.parameters();
    let connection = service.store.read()?;
    let container = container(&connection, asked, (db, coll))?;
    plan::sort_is_indexed(&select, container.policy())?;
    let mut pushdown = plan::pushdown(&select, &parameters, container.policy());
    let reach = Reach::of(&asked.headers, &container)?;
    across(asked, &select, &reach)?;
    let binding = Binding::of(asked, &reach);
    let position = binding.position(asked)?;
    pushdown.restrict(reach.rows);
    let ranges = reach.ranges.len();
    let visit = Visit::read(service, &connection, asked, &container, reach.ranges)?;
    let run = Run {
        connection: &connection,
        container: &container,
        select: &select,
        parameters: &parameters,
        judged: std::mem::take(&mut pushdown.judged),
        limit: page_size(asked)?.unwrap_or(PAGE),
    };
    let page = if plan::streams(&select) {
        run.stream(pushdown, position)?
    } else {
        run.whole(&pushdown, &position)?
    };
    let last = catalog::last_lsn(&connection)?;
    let index = IndexUse::of(&select, container.policy());
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
    parameters: &'a HashMap<String, Value>,
    /// What an index would have sorted out before a document is loaded.
    judged: Vec<Expr>,
    limit: usize,
}

impl Run<'_> {
    /// A number that a clause names, such as `TOP @n`.
    fn number(&self, expr: Option<&Expr>) -> Result<Option<usize>, ServiceError> {
        let Some(expr) = expr else { return Ok(None) };
        let value = Scope::constant(self.parameters).eval(expr)?;
        value
            .and_then(|value| value.as_u64())
            .and_then(|number| usize::try_from(number).ok())
            .map(Some)
            .ok_or_else(|| ServiceError::bad_request("TOP, OFFSET and LIMIT take whole numbers."))
    }

    /// The bindings of a row that meet the condition.
    fn matching(&self, body: &str, touched: &mut Touched) -> Result<Vec<Scope<'_>>, ServiceError> {
        let document: Value = serde_json::from_str(body)?;
        let scope = Scope::new(&self.select.alias, document, self.parameters);
        for judged in &self.judged {
            if !scope.holds(Some(judged))? {
                return Ok(Vec::new());
            }
        }
        touched.document(body);
        let mut found = Vec::new();
        for scope in scope.joined(self.select)? {
            if scope.holds(self.select.filter.as_ref())? {
                found.push(scope);
            }
        }
        Ok(found)
    }

    /// Rows in the order of their keys, page by page from where the last one ended.
    fn stream(&self, mut pushdown: Pushdown, position: Position) -> Result<Page, ServiceError> {
        let top = self.number(self.select.top.as_ref())?;
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
                    if let Some(value) = scope.project(&self.select.projection)? {
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
        let offset = self.number(select.offset.as_ref())?.unwrap_or(0);
        let most = self
            .number(select.top.as_ref())?
            .into_iter()
            .chain(self.number(select.limit.as_ref())?)
            .min()
            .unwrap_or(usize::MAX);
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
        let mut rows = self.project(scopes)?;
        if select.distinct {
            let mut seen = HashSet::new();
            rows.retain(|row| seen.insert(row.to_string()));
        }
        let mut rest = rows.into_iter().skip(offset).take(most).skip(position.skip);
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
        let (condition, parameters) = condition(pushdown);
        let order = pushdown.order.as_deref().unwrap_or("pk, id");
        let mut scopes = Vec::new();
        let mut touched = Touched::default();
        self.container
            .scan(self.connection, &condition, order, &parameters, |row| {
                scopes.extend(self.matching(&row.body, &mut touched)?);
                Ok(scopes.len() < enough)
            })?;
        if self.select.order_by.is_empty() {
            return Ok((scopes, touched));
        }
        // SQLite knows fewer types than the service, so its order is checked and where they differ mended.
        let descending: Vec<bool> = self
            .select
            .order_by
            .iter()
            .map(|item| item.descending)
            .collect();
        let mut keyed = Vec::with_capacity(scopes.len());
        for scope in scopes {
            let mut keys = Vec::with_capacity(descending.len());
            for item in &self.select.order_by {
                keys.push(scope.eval(&item.expr)?);
            }
            keyed.push((keys, scope));
        }
        keyed.sort_by(|(a, _), (b, _)| by_keys(a, b, &descending));
        Ok((keyed.into_iter().map(|(_, scope)| scope).collect(), touched))
    }

    fn project(&self, scopes: Vec<Scope<'_>>) -> Result<Vec<Value>, ServiceError> {
        let select = self.select;
        let mut rows = Vec::new();
        if !select.group_by.is_empty() {
            for group in self.groups(scopes)? {
                rows.extend(aggregate(&group, &select.projection)?);
            }
        } else if select.aggregates() {
            rows.extend(aggregate(&scopes, &select.projection)?);
        } else {
            for scope in scopes {
                rows.extend(scope.project(&select.projection)?);
            }
        }
        Ok(rows)
    }

    /// Rows with equal values of the grouping expressions, in the order in which groups first appear.
    fn groups<'s>(&self, scopes: Vec<Scope<'s>>) -> Result<Vec<Vec<Scope<'s>>>, ServiceError> {
        let mut groups: Vec<Vec<Scope<'s>>> = Vec::new();
        let mut known: HashMap<String, usize> = HashMap::new();
        for scope in scopes {
            let mut key = String::new();
            for expr in &self.select.group_by {
                let value = scope.eval(expr)?;
                key.push_str(
                    &value.map_or_else(|| "undefined".to_owned(), |value| value.to_string()),
                );
                key.push('\u{1f}');
            }
            let at = *known.entry(key).or_insert_with(|| {
                groups.push(Vec::new());
                groups.len() - 1
            });
            groups[at].push(scope);
        }
        Ok(groups)
    }
}
