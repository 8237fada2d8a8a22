//! The pages of a query. If rows are independent, a page can end after any row, and the next page
//! resumes after it. If rows are folded, grouped or deduplicated, a page is a slice of the whole
//! result.

use serde_json::Value;

use super::continuation::{LastDocument, PartialDocument, Position};
use super::cost_inputs::CostInputs;
use crate::plan::{self, Order, Pushdown, ScanRange, counts_only};
use crate::protocol::ServiceError;
use crate::sql::ast::{Expr, Projection, Select};
use crate::sql::eval::Scope;
use crate::sql::{Aggregate, Context, Part, rows};
use crate::store::{Connection, Container, Policy, Row, RowCondition, Scan, SqlValue};

/// Maximum size of a page in bytes.
const PAGE_BYTES: usize = 4 * 1024 * 1024;

/// A page.
#[derive(Debug, Default)]
pub(in crate::op) struct Page {
    /// The rows as JSON.
    pub(in crate::op) rows: Vec<String>,
    pub(in crate::op) next: Option<Position>,
    pub(in crate::op) cost_inputs: CostInputs,
}

/// The execution of a query.
pub(in crate::op) struct Run<'a> {
    pub(in crate::op) connection: &'a Connection,
    pub(in crate::op) container: &'a Container,
    pub(in crate::op) context: &'a Context,
    /// The rows in the scope of the request.
    pub(in crate::op) scope: RowCondition,
    /// Whether an index excludes documents whose join has no rows.
    pub(in crate::op) joined: bool,
    /// The policy that has to serve a sort too, until a longer index transformation is complete.
    pub(in crate::op) former: Option<Policy>,
    /// Maximum number of rows of a page.
    pub(in crate::op) limit: usize,
}

impl Run<'_> {
    /// Returns the page that starts at a position.
    pub(in crate::op) fn page(
        &self,
        select: &Select,
        position: Position,
    ) -> Result<Page, ServiceError> {
        if plan::streams(select) {
            self.streamed_page(select, position)
        } else {
            self.slice_of_all_rows(select, &position)
        }
    }

    /// Plans a query. The plan of a later page equals the plan of the first.
    fn plan<'q>(&self, select: &'q Select) -> Result<Pushdown<'q>, ServiceError> {
        let policy = self.container.policy();
        for policy in std::iter::once(policy).chain(&self.former) {
            plan::check_sort(select, policy)?;
        }
        let parameters = self.context.parameters();
        let within_a_key = self.scope.is_one_key();
        Ok(Pushdown::of(select, parameters, policy, within_a_key))
    }

    /// Returns a page of a query whose rows are independent.
    fn streamed_page(&self, select: &Select, position: Position) -> Result<Page, ServiceError> {
        let parameters = self.context.parameters();
        let plan = self.plan(select)?;
        let ranges = match &position.after {
            None => vec![plan.order.all()],
            Some(after) => {
                let (pk, id) = (after.pk.clone(), after.id.clone());
                plan.order.after(&after.keys, pk, id)
            }
        };
        let is_first_page = position.skip == 0;
        let mut filling = PageInProgress {
            matcher: Matcher::new(self, DocumentParts::of_stream(select), &plan),
            page: Page::default(),
            bytes: 0,
            rows_left: rows::most(select, parameters)?.saturating_sub(position.skip),
            offset_left: if is_first_page {
                rows::number(select.offset.as_ref(), parameters)?.unwrap_or(0)
            } else {
                0
            },
            position,
        };
        let mut has_room = true;
        for range in ranges {
            if has_room {
                self.scan(&plan, &range, |row| {
                    has_room = filling.add_document(row)?;
                    Ok(has_room)
                })?;
            }
        }
        filling.page.cost_inputs = filling.matcher.cost_inputs;
        Ok(filling.page)
    }

    /// Visits the rows of a range that have not expired.
    fn scan(
        &self,
        plan: &Pushdown<'_>,
        range: &ScanRange,
        visit: impl FnMut(Row) -> Result<bool, ServiceError>,
    ) -> Result<(), ServiceError> {
        let (condition, parameters) = self.condition(plan, range);
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
    fn condition(&self, plan: &Pushdown<'_>, range: &ScanRange) -> (String, Vec<SqlValue>) {
        let mut condition = format!(
            "{} AND {} AND {}",
            plan.condition, self.scope.condition, range.condition
        );
        let parts = [&plan.parameters, &self.scope.parameters, &range.parameters];
        let mut parameters: Vec<SqlValue> = parts.into_iter().flatten().cloned().collect();
        if self.container.has_expiry() {
            condition.push_str(" AND (expires IS NULL OR expires >= ?)");
            parameters.push(SqlValue::Integer(self.context.now_secs()));
        }
        (condition, parameters)
    }

    /// Returns a page as a slice of all rows.
    fn slice_of_all_rows(
        &self,
        select: &Select,
        position: &Position,
    ) -> Result<Page, ServiceError> {
        let mut page = Page::default();
        let all = self.all_rows(select, &mut page.cost_inputs)?;
        let mut bytes = 0;
        for row in all.into_iter().skip(position.skip) {
            let row = row.to_string();
            bytes += row.len();
            if page.rows.len() >= self.limit || bytes > PAGE_BYTES && !page.rows.is_empty() {
                page.next = Some(Position {
                    skip: position.skip.saturating_add(page.rows.len()),
                    ..Position::default()
                });
                break;
            }
            page.rows.push(row);
        }
        Ok(page)
    }

    /// Returns all rows of a query.
    fn all_rows(
        &self,
        select: &Select,
        cost_inputs: &mut CostInputs,
    ) -> Result<Vec<Value>, ServiceError> {
        let mut scopes = Vec::new();
        if let Some(derived) = &select.derived {
            for row in self.all_rows(derived, cost_inputs)? {
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
            let mut matcher = Matcher::new(self, DocumentParts::of(select), &plan);
            if let Some((aggregate, of)) = rows::only_aggregate(select) {
                let value = self.aggregate(&mut matcher, aggregate, of)?;
                *cost_inputs = matcher.cost_inputs;
                return Ok(value.into_iter().collect());
            }
            self.scan(&plan, &plan.order.all(), |row| {
                scopes.extend(matcher.matching(&row.body)?);
                Ok(true)
            })?;
            *cost_inputs = matcher.cost_inputs;
            if select.unindexed_sort {
                scopes = rows::sort_defined(select, scopes)?;
            }
        }
        rows::finish(select, scopes, self.context)
    }

    /// Returns the value of a query's only aggregate without holding its rows. A count reads no
    /// documents if the condition is exact.
    fn aggregate(
        &self,
        matcher: &mut Matcher<'_, '_>,
        aggregate: Aggregate,
        of: &Expr,
    ) -> Result<Option<Value>, ServiceError> {
        let plan = matcher.plan;
        let range = plan.order.all();
        if plan.exact && counts_only(matcher.parts.select) {
            let (condition, parameters) = self.condition(plan, &range);
            let index = range.index.as_deref();
            let count = self
                .container
                .count(self.connection, index, &condition, &parameters)?;
            matcher.cost_inputs.entries(count);
            return Ok(Some(count.into()));
        }
        let mut values = Vec::new();
        self.scan(plan, &range, |row| {
            for scope in matcher.matching(&row.body)? {
                self.context.begin_row();
                values.extend(scope.owned(of)?);
            }
            Ok(true)
        })?;
        Ok(aggregate.fold(values))
    }
}

/// Finds the bindings of documents that meet the filter of a query, and counts what they cost.
struct Matcher<'a, 'p> {
    run: &'a Run<'a>,
    parts: DocumentParts<'a>,
    plan: &'p Pushdown<'p>,
    cost_inputs: CostInputs,
}

impl<'a, 'p> Matcher<'a, 'p> {
    fn new(run: &'a Run<'a>, parts: DocumentParts<'a>, plan: &'p Pushdown<'p>) -> Self {
        Self {
            run,
            parts,
            plan,
            cost_inputs: CostInputs::default(),
        }
    }

    /// Returns the bindings of a document that meet the filter.
    fn matching(&mut self, body: &str) -> Result<Vec<Scope<'a>>, ServiceError> {
        let (select, context) = (self.parts.select, self.run.context);
        if self.plan.exact && self.parts.returns_documents {
            self.cost_inputs.document(body);
            return Ok(vec![Scope::new(&select.alias, Value::Null, context)]);
        }
        let scope = Scope::new(&select.alias, self.parts.parse_first(body)?, context);
        for condition in &self.plan.served {
            if !scope.holds(Some(condition))? {
                return Ok(Vec::new());
            }
        }
        let mut found = Vec::new();
        if !self.parts.needs_whole_document() {
            found = scope.matching(select)?;
        } else if scope.holds(select.filter.as_ref())? {
            let whole = Scope::new(&select.alias, serde_json::from_str(body)?, context);
            found = whole.matching(select)?;
        }
        if !self.run.joined || !found.is_empty() {
            self.cost_inputs.document(body);
        }
        Ok(found)
    }
}

/// The parts of documents that a query reads.
struct DocumentParts<'a> {
    select: &'a Select,
    /// The part that the query reads; `None` for whole documents.
    of_query: Option<Part>,
    /// The part that the filter reads.
    of_filter: Option<Part>,
    /// Whether each row is a stored document, which is then returned as it is stored.
    returns_documents: bool,
}

impl<'a> DocumentParts<'a> {
    fn of(select: &'a Select) -> Self {
        Self {
            select,
            of_query: Part::of_query(select),
            of_filter: Part::of_filter(select),
            returns_documents: false,
        }
    }

    /// Returns the parts of a query that returns its rows one by one.
    fn of_stream(select: &'a Select) -> Self {
        Self {
            returns_documents: select.projection == Projection::Star && select.joins.is_empty(),
            ..Self::of(select)
        }
    }

    /// Parses the part of a document that is needed first.
    fn parse_first(&self, body: &str) -> Result<Value, ServiceError> {
        Ok(match self.of_query.as_ref().or(self.of_filter.as_ref()) {
            Some(part) => part.read(body)?,
            None => serde_json::from_str(body)?,
        })
    }

    /// Returns whether that part is only enough for the filter.
    fn needs_whole_document(&self) -> bool {
        self.of_query.is_none() && self.of_filter.is_some() && !self.returns_documents
    }
}

/// A page that is being filled.
struct PageInProgress<'a, 'p> {
    matcher: Matcher<'a, 'p>,
    page: Page,
    bytes: usize,
    /// The number of rows that the query still returns.
    rows_left: usize,
    /// The number of rows that the query still skips.
    offset_left: usize,
    /// The position after the last complete document; at first the start of the page.
    position: Position,
}

impl PageInProgress<'_, '_> {
    /// Adds the rows of a document. Returns whether the page has room for more.
    fn add_document(&mut self, row: Row) -> Result<bool, ServiceError> {
        if self.ends_before(0, &row, 0) {
            return Ok(false);
        }
        // If the index changed since the last page, documents without rows can come before this
        // one.
        let partial = &mut self.position.partial;
        let same = partial.take_if(|partial| partial.pk == row.pk && partial.id == row.id);
        let returned_before = same.map_or(0, |partial| partial.rows);
        let mut number = 0;
        for scope in self.matcher.matching(&row.body)? {
            let Some((value, bytes)) = self.project(&scope, &row.body)? else {
                continue;
            };
            number += 1;
            if number <= returned_before {
                continue;
            }
            if self.offset_left > 0 {
                self.offset_left -= 1;
                continue;
            }
            if self.ends_before(number - 1, &row, bytes) {
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
    fn project(
        &self,
        scope: &Scope<'_>,
        body: &str,
    ) -> Result<Option<(String, usize)>, ServiceError> {
        let parts = &self.matcher.parts;
        if parts.returns_documents {
            self.matcher.run.context.spend(body.len() / 32)?;
            return Ok(Some((body.to_owned(), body.len())));
        }
        let value = scope.project(parts.select)?;
        Ok(value.map(|value| (value.to_string(), size(&value))))
    }

    /// Returns whether the page ends before a row with `bytes`, after `complete` rows of its document.
    /// Sets the start of the next page if rows are left.
    fn ends_before(&mut self, complete: usize, row: &Row, bytes: usize) -> bool {
        let count = self.page.rows.len();
        if count >= self.rows_left {
            return true;
        }
        let fits = count == 0 || self.bytes + bytes <= PAGE_BYTES;
        if count < self.matcher.run.limit && fits {
            return false;
        }
        let partial = PartialDocument {
            pk: row.pk.clone(),
            id: row.id.clone(),
            rows: complete,
        };
        self.page.next = Some(Position {
            skip: self.position.skip.saturating_add(count),
            after: self.position.after.take(),
            partial: (complete > 0).then_some(partial),
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
    parameters: std::collections::HashMap<String, Value>,
    limit: usize,
) -> Result<Vec<Value>, ServiceError> {
    let select = crate::sql::parse(text)?;
    let context = Context::new(parameters, crate::time::Clock::machine().now());
    let scope = RowCondition {
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
