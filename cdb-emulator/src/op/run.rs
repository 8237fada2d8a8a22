//! The pages of a query. If rows are independent, a page can end after any row, and the next page
//! resumes after it. If rows are folded, grouped or deduplicated, a page is a slice of the whole
//! result.

use serde_json::Value;

use super::continuation::{LastDocument, PartialDocument, Position};
use super::cost_inputs::CostInputs;
use super::scope::RowScope;
use crate::error::ServiceError;
use crate::index_use::counts_only;
use crate::plan::{self, Order, Pushdown, ScanRange};
use crate::sql::ast::{Expr, Projection, Select};
use crate::sql::eval::Scope;
use crate::sql::{Aggregate, Context, Part, rows};
use crate::store::{Connection, Container, Policy, Row, Scan, SqlValue};

/// Maximum size of a page in bytes.
const PAGE_BYTES: usize = 4 * 1024 * 1024;

/// A page.
#[derive(Debug, Default)]
pub(super) struct Page {
    /// The rows as JSON.
    pub(super) rows: Vec<String>,
    pub(super) next: Option<Position>,
    pub(super) cost_inputs: CostInputs,
}

/// The execution of a query.
pub(super) struct Run<'a> {
    pub(super) connection: &'a Connection,
    pub(super) container: &'a Container,
    pub(super) context: &'a Context,
    /// The rows in the scope of the request.
    pub(super) scope: RowScope,
    /// Whether an index excludes documents whose join has no rows.
    pub(super) joined: bool,
    /// The policy that has to serve a sort too, until a longer index transformation is complete.
    pub(super) former: Option<Policy>,
    /// Maximum number of rows of a page.
    pub(super) limit: usize,
}

impl Run<'_> {
    /// Returns the page that starts at a position.
    pub(super) fn page(&self, select: &Select, position: Position) -> Result<Page, ServiceError> {
        if plan::streams(select) {
            self.stream(select, position)
        } else {
            self.cut(select, &position)
        }
    }

    /// Plans a query. The plan of a later page equals the plan of the first.
    fn plan<'q>(&self, select: &'q Select) -> Result<Pushdown<'q>, ServiceError> {
        let policy = self.container.policy();
        for policy in std::iter::once(policy).chain(&self.former) {
            plan::sort_is_indexed(select, policy)?;
        }
        let parameters = self.context.parameters();
        let within_a_key = self.scope.is_one_key();
        Ok(Pushdown::of(select, parameters, policy, within_a_key))
    }

    fn stream(&self, select: &Select, position: Position) -> Result<Page, ServiceError> {
        let parameters = self.context.parameters();
        let mut stream = Stream {
            run: self,
            view: View::of_stream(select),
            page: Page::default(),
            bytes: 0,
            left: rows::most(select, parameters)?.saturating_sub(position.skip),
            passed: match position.skip {
                0 => rows::number(select.offset.as_ref(), parameters)?.unwrap_or(0),
                _ => 0,
            },
            position,
        };
        let plan = self.plan(select)?;
        let ranges = match &stream.position.after {
            None => vec![plan.order.all()],
            Some(after) => {
                let (pk, id) = (after.pk.clone(), after.id.clone());
                plan.order.after(&after.keys, pk, id)
            }
        };
        let mut more = true;
        for range in ranges {
            if more {
                self.scan(&plan, &range, |row| {
                    more = stream.visit(row, &plan)?;
                    Ok(more)
                })?;
            }
        }
        Ok(stream.page)
    }

    /// Visits the rows of a range that have not expired.
    fn scan(
        &self,
        pushdown: &Pushdown<'_>,
        range: &ScanRange,
        visit: impl FnMut(Row) -> Result<bool, ServiceError>,
    ) -> Result<(), ServiceError> {
        let (condition, parameters) = self.condition(pushdown, range);
        let scan = Scan {
            keys: &range.keys,
            index: range.index.as_deref(),
            condition: &condition,
            order: &range.order,
            parameters: &parameters,
        };
        self.container.scan(self.connection, &scan, visit)
    }

    /// Returns the condition on the rows of a range.
    fn condition(&self, pushdown: &Pushdown<'_>, range: &ScanRange) -> (String, Vec<SqlValue>) {
        let mut condition = format!(
            "{} AND {} AND {}",
            pushdown.condition, self.scope.condition, range.condition
        );
        let parts = [
            &pushdown.parameters,
            &self.scope.parameters,
            &range.parameters,
        ];
        let mut parameters: Vec<SqlValue> = parts.into_iter().flatten().cloned().collect();
        if self.container.has_expiry() {
            condition.push_str(" AND (expires IS NULL OR expires > ?)");
            parameters.push(SqlValue::Integer(self.context.now_secs()));
        }
        (condition, parameters)
    }

    /// Returns the bindings of a row that meet the filter.
    fn matching<'s>(
        &'s self,
        view: &View<'s>,
        (body, plan): (&str, &Pushdown<'_>),
        cost_inputs: &mut CostInputs,
    ) -> Result<Vec<Scope<'s>>, ServiceError> {
        let select = view.select;
        let is_met = plan.exact && view.returns_documents;
        let first = if is_met {
            Value::Null
        } else {
            view.first(body)?
        };
        let mut scope = Scope::new(&select.alias, first, self.context);
        if is_met {
            cost_inputs.document(body);
            return Ok(vec![scope]);
        }
        for condition in &plan.served {
            if !scope.holds(Some(condition))? {
                return Ok(Vec::new());
            }
        }
        let mut found = Vec::new();
        if !view.reads_on() {
            found = scope.matching(select)?;
        } else if scope.holds(select.filter.as_ref())? {
            scope = Scope::new(&select.alias, serde_json::from_str(body)?, self.context);
            found = scope.matching(select)?;
        }
        if !self.joined || !found.is_empty() {
            cost_inputs.document(body);
        }
        Ok(found)
    }

    /// Returns a page as a slice of all rows.
    fn cut(&self, select: &Select, position: &Position) -> Result<Page, ServiceError> {
        let mut page = Page::default();
        let rows = self.whole(select, &mut page)?;
        let rest = rows.into_iter().skip(position.skip);
        let mut bytes = 0;
        let mut left = false;
        for row in rest {
            let row = row.to_string();
            bytes += row.len();
            left = page.rows.len() >= self.limit || bytes > PAGE_BYTES && !page.rows.is_empty();
            if left {
                break;
            }
            page.rows.push(row);
        }
        if left {
            page.next = Some(Position {
                skip: position.skip.saturating_add(page.rows.len()),
                ..Position::default()
            });
        }
        Ok(page)
    }

    /// Returns the value of a query's only aggregate without holding its rows. A count reads no
    /// documents if the condition is exact.
    fn folded(
        &self,
        select: &Select,
        (aggregate, of): (Aggregate, &Expr),
        plan: &Pushdown<'_>,
        cost_inputs: &mut CostInputs,
    ) -> Result<Option<Value>, ServiceError> {
        if plan.exact && counts_only(select) {
            let range = plan.order.all();
            let (condition, parameters) = self.condition(plan, &range);
            let index = range.index.as_deref();
            let count = self
                .container
                .count(self.connection, index, &condition, &parameters)?;
            cost_inputs.entries(count);
            return Ok(Some(count.into()));
        }
        let mut values = Vec::new();
        self.each(select, plan, cost_inputs, |found| {
            for scope in found {
                self.context.begin_row();
                values.extend(scope.owned(of)?);
            }
            Ok(())
        })?;
        Ok(aggregate.fold(values))
    }

    /// Visits the matching bindings of all documents, one document at a time.
    fn each<'s>(
        &'s self,
        select: &'s Select,
        plan: &Pushdown<'_>,
        cost_inputs: &mut CostInputs,
        mut visit: impl FnMut(Vec<Scope<'s>>) -> Result<(), ServiceError>,
    ) -> Result<(), ServiceError> {
        let view = View::of(select);
        self.scan(plan, &plan.order.all(), |row| {
            visit(self.matching(&view, (&row.body, plan), cost_inputs)?)?;
            Ok(true)
        })
    }

    /// Returns all rows of a query.
    fn whole(&self, select: &Select, page: &mut Page) -> Result<Vec<Value>, ServiceError> {
        let mut scopes = Vec::new();
        if let Some(derived) = &select.derived {
            for row in self.whole(derived, page)? {
                scopes.extend(Scope::new(&select.alias, row, self.context).matching(select)?);
            }
            scopes = rows::sort(select, scopes)?;
        } else if select.alias.is_empty() {
            scopes = Scope::constant(self.context).matching(select)?;
        } else {
            let unsorted = Select {
                order_by: Vec::new(),
                ..select.clone()
            };
            let stored = if select.unindexed_sort {
                &unsorted
            } else {
                select
            };
            let plan = self.plan(stored)?;
            if let Some(request) = rows::only_aggregate(select) {
                let value = self.folded(select, request, &plan, &mut page.cost_inputs)?;
                return Ok(value.into_iter().collect());
            }
            self.each(select, &plan, &mut page.cost_inputs, |found| {
                scopes.extend(found);
                Ok(())
            })?;
            if select.unindexed_sort {
                scopes = rows::sort_defined(select, scopes)?;
            }
        }
        rows::finish(select, scopes, self.context)
    }
}

/// A query, and the parts of documents that it reads.
struct View<'a> {
    select: &'a Select,
    /// The part that the query reads; `None` for whole documents.
    whole: Option<Part>,
    /// The part that the filter reads.
    filter: Option<Part>,
    /// Whether each row is a stored document, which is then returned as it is stored.
    returns_documents: bool,
}

impl<'a> View<'a> {
    fn of(select: &'a Select) -> Self {
        Self {
            select,
            whole: Part::of_query(select),
            filter: Part::of_filter(select),
            returns_documents: false,
        }
    }

    /// Returns the view of a query that returns its rows one by one.
    fn of_stream(select: &'a Select) -> Self {
        Self {
            returns_documents: select.projection == Projection::Star && select.joins.is_empty(),
            ..Self::of(select)
        }
    }

    /// Parses the part of a document that is needed first.
    fn first(&self, body: &str) -> Result<Value, ServiceError> {
        Ok(match self.whole.as_ref().or(self.filter.as_ref()) {
            Some(part) => part.read(body)?,
            None => serde_json::from_str(body)?,
        })
    }

    /// Returns whether that part is only enough for the filter.
    fn reads_on(&self) -> bool {
        self.whole.is_none() && self.filter.is_some() && !self.returns_documents
    }
}

/// A page that is being filled.
struct Stream<'a> {
    run: &'a Run<'a>,
    view: View<'a>,
    page: Page,
    bytes: usize,
    /// The number of rows that the query still returns.
    left: usize,
    /// The number of rows that the query still skips.
    passed: usize,
    /// The position after the last complete document; at first the start of the page.
    position: Position,
}

impl Stream<'_> {
    /// Adds the rows of a document. Returns whether the page has room for more.
    fn visit(&mut self, row: Row, plan: &Pushdown<'_>) -> Result<bool, ServiceError> {
        if self.ends(0, &row, 0) {
            return Ok(false);
        }
        // If the index changed since the last page, documents without rows can come before this
        // one.
        let begun = &mut self.position.begun;
        let known = begun.take_if(|begun| begun.pk == row.pk && begun.id == row.id);
        let given = known.map_or(0, |begun| begun.rows);
        let document = (&*row.body, plan);
        let scopes = self
            .run
            .matching(&self.view, document, &mut self.page.cost_inputs)?;
        let mut at = 0;
        for scope in scopes {
            let Some((value, bytes)) = self.row(&scope, &row.body)? else {
                continue;
            };
            at += 1;
            if at <= given {
                continue;
            }
            if self.passed > 0 {
                self.passed -= 1;
                continue;
            }
            if self.ends(at - 1, &row, bytes) {
                return Ok(false);
            }
            self.bytes += bytes;
            self.page.rows.push(value);
        }
        self.position.after = Some(LastDocument {
            keys: Order::keys(&row.keys),
            pk: row.pk,
            id: row.id,
        });
        Ok(true)
    }

    /// Returns a row as JSON, and its estimated length; `None` if it is undefined.
    fn row(&self, scope: &Scope<'_>, body: &str) -> Result<Option<(String, usize)>, ServiceError> {
        if self.view.returns_documents {
            self.run.context.spend(body.len() / 32)?;
            return Ok(Some((body.to_owned(), body.len())));
        }
        let value = scope.project(self.view.select)?;
        Ok(value.map(|value| (value.to_string(), size(&value))))
    }

    /// Returns whether the page ends before row `at` of a document, which has `bytes`. Sets the start
    /// of the next page if rows are left.
    fn ends(&mut self, at: usize, row: &Row, bytes: usize) -> bool {
        let count = self.page.rows.len();
        if count >= self.left {
            return true;
        }
        let fits = count == 0 || self.bytes + bytes <= PAGE_BYTES;
        if count < self.run.limit && fits {
            return false;
        }
        let begun = PartialDocument {
            pk: row.pk.clone(),
            id: row.id.clone(),
            rows: at,
        };
        self.page.next = Some(Position {
            skip: self.position.skip.saturating_add(count),
            after: self.position.after.take(),
            begun: (at > 0).then_some(begun),
        });
        true
    }
}

/// Estimates the length of a value as JSON.
fn size(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) => 5,
        Value::Number(_) => 10,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => 2 + items.iter().map(|item| size(item) + 1).sum::<usize>(),
        Value::Object(object) => {
            let fields = object
                .iter()
                .map(|(name, item)| name.len() + 4 + size(item));
            2 + fields.sum::<usize>()
        }
    }
}

/// Returns all rows of a query, read page by page.
#[cfg(test)]
pub(crate) fn rows_of(
    connection: &Connection,
    container: &Container,
    text: &str,
    (parameters, limit): (std::collections::HashMap<String, Value>, usize),
) -> Result<Vec<Value>, ServiceError> {
    let select = crate::sql::parse(text)?;
    let context = Context::new(parameters, crate::clock::Clock::machine().now());
    let scope = RowScope {
        condition: "1".to_owned(),
        parameters: Vec::new(),
    };
    let run = Run {
        connection,
        container,
        context: &context,
        scope,
        joined: false,
        former: None,
        limit,
    };
    let mut rows = Vec::new();
    let mut position = Position::default();
    loop {
        let page = run.page(&select, position)?;
        assert!(page.rows.len() <= limit, "{text}");
        for row in page.rows {
            rows.push(serde_json::from_str(&row)?);
        }
        let Some(next) = page.next else {
            return Ok(rows);
        };
        // A token carries the position as JSON.
        position = serde_json::from_value(serde_json::to_value(next)?)?;
    }
}
