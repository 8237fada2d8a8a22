//! The rows of a query, page by page. Where every row stands for itself a page ends at any of them and the next begins
//! behind it; where rows are folded, grouped or told apart, the page is cut from the whole.

use serde_json::Value;

use super::choice;
use super::continuation::{After, Begun, Position};
use super::cost_inputs::CostInputs;
use super::scope::RowScope;
use crate::clock::now_secs;
use crate::error::ServiceError;
use crate::index_use::counts_only;
use crate::plan::{self, Order, Pushdown, Stretch};
use crate::sql::ast::{Expr, Select};
use crate::sql::eval::Scope;
use crate::sql::{Aggregate, Context, Part, rows};
use crate::store::{Connection, Container, Row, Scan, SqlValue};

/// Largest page in bytes.
const PAGE_BYTES: usize = 4 * 1024 * 1024;

/// One page.
#[derive(Debug, Default)]
pub(super) struct Page {
    pub(super) rows: Vec<Value>,
    pub(super) next: Option<Position>,
    pub(super) cost_inputs: CostInputs,
}

/// A query of some rows of a container.
pub(super) struct Run<'a> {
    pub(super) connection: &'a Connection,
    pub(super) container: &'a Container,
    pub(super) context: &'a Context,
    /// The rows that the request names.
    pub(super) scope: RowScope,
    /// Whether an index also sorts out documents to which nothing is joined.
    pub(super) joined: bool,
    /// Rows per page.
    pub(super) limit: usize,
}

impl Run<'_> {
    /// The page of a query that begins at a position.
    pub(super) fn page(&self, select: &Select, position: Position) -> Result<Page, ServiceError> {
        if plan::streams(select) {
            self.stream(select, position)
        } else {
            self.cut(select, &position)
        }
    }

    /// Plans a query, in the pieces and the order in which the pages before were read.
    fn pieces(&self, select: &Select, position: &Position) -> Result<Vec<Pushdown>, ServiceError> {
        for policy in self.container.serving_policies() {
            plan::sort_is_indexed(select, policy)?;
        }
        let policy = self.container.indexed_policy();
        let parameters = self.context.parameters();
        let mut pieces = plan::pieces(select, parameters, policy, self.scope.is_one_key());
        let wanted = if plan::has_one_row(select) {
            usize::MAX
        } else if plan::streams(select) {
            rows::most(select, parameters)?.min(self.limit)
        } else {
            // A page is cut from the whole result, whose order must not change between pages.
            return Ok(pieces);
        };
        let store = (self.connection, self.container);
        for (at, piece) in pieces.iter_mut().enumerate().skip(position.piece) {
            let begun = position.skip > 0 && at == position.piece;
            let begun_by = begun.then(|| position.index.as_deref().unwrap_or_default());
            choice::settle(store, piece, wanted, begun_by)?;
        }
        Ok(pieces)
    }

    fn stream(&self, select: &Select, position: Position) -> Result<Page, ServiceError> {
        let parameters = self.context.parameters();
        let mut stream = Stream {
            run: self,
            view: View::of(select),
            page: Page::default(),
            bytes: 0,
            left: rows::most(select, parameters)?.saturating_sub(position.skip),
            passed: match position.skip {
                0 => rows::number(select.offset.as_ref(), parameters)?.unwrap_or(0),
                _ => 0,
            },
            position,
        };
        let pieces = self.pieces(select, &stream.position)?;
        for piece in pieces.iter().skip(stream.position.piece) {
            let chosen = piece.order.index().filter(|_| !piece.candidates.is_empty());
            stream.position.index = chosen.cloned();
            if !self.read(piece, &mut stream)? {
                break;
            }
            stream.position.piece += 1;
            stream.position.after = None;
        }
        Ok(stream.page)
    }

    /// Reads a piece from where the page has come to; whether there is room for more.
    fn read(&self, piece: &Pushdown, stream: &mut Stream<'_>) -> Result<bool, ServiceError> {
        let stretches = match &stream.position.after {
            None => vec![piece.order.whole()],
            Some(after) => {
                let (pk, id) = (after.pk.clone(), after.id.clone());
                piece.order.behind(&after.keys, pk, id)
            }
        };
        let mut more = true;
        for stretch in stretches {
            if more {
                self.scan(piece, &stretch, |row| {
                    more = stream.visit(row, piece)?;
                    Ok(more)
                })?;
            }
        }
        Ok(more)
    }

    /// Hands out the rows of a stretch that have not expired.
    fn scan(
        &self,
        pushdown: &Pushdown,
        stretch: &Stretch,
        visit: impl FnMut(Row) -> Result<bool, ServiceError>,
    ) -> Result<(), ServiceError> {
        let (condition, parameters) = self.condition(pushdown, stretch);
        let scan = Scan {
            keys: &stretch.keys,
            index: stretch.index.as_deref(),
            condition: &condition,
            order: &stretch.order,
            parameters: &parameters,
        };
        self.container.scan(self.connection, &scan, visit)
    }

    /// What the rows of a stretch have to meet.
    fn condition(&self, pushdown: &Pushdown, stretch: &Stretch) -> (String, Vec<SqlValue>) {
        let mut condition = format!(
            "{} AND {} AND {}",
            pushdown.condition, self.scope.condition, stretch.condition
        );
        let parts = [
            &pushdown.parameters,
            &self.scope.parameters,
            &stretch.parameters,
        ];
        let mut parameters: Vec<SqlValue> = parts.into_iter().flatten().cloned().collect();
        if self.container.default_ttl().is_some() {
            condition.push_str(" AND (expires IS NULL OR expires > ?)");
            parameters.push(SqlValue::Integer(now_secs()));
        }
        (condition, parameters)
    }

    /// The bindings of a row that meet the condition.
    fn matching<'s>(
        &'s self,
        view: &View<'s>,
        (body, piece): (&str, &Pushdown),
        cost_inputs: &mut CostInputs,
    ) -> Result<Vec<Scope<'s>>, ServiceError> {
        let select = view.select;
        let mut scope = Scope::new(&select.alias, view.first(body)?, self.context);
        for judged in &piece.judged {
            if !scope.holds(Some(judged))? {
                return Ok(Vec::new());
            }
        }
        for given in &piece.given {
            if scope.holds(Some(given))? {
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

    /// A page out of all rows.
    fn cut(&self, select: &Select, position: &Position) -> Result<Page, ServiceError> {
        let mut page = Page::default();
        let rows = self.whole(select, &mut page)?;
        let mut rest = rows.into_iter().skip(position.skip);
        let mut bytes = 0;
        while page.rows.len() < self.limit && bytes < PAGE_BYTES {
            let Some(row) = rest.next() else { break };
            bytes += row.to_string().len();
            page.rows.push(row);
        }
        if rest.next().is_some() {
            page.next = Some(Position {
                skip: position.skip.saturating_add(page.rows.len()),
                ..Position::default()
            });
        }
        Ok(page)
    }

    /// The value of the one aggregate that a query asks for, without holding the rows that it folds; a count without a look
    /// at them where the store knows which ones meet the filter.
    fn folded(
        &self,
        select: &Select,
        (aggregate, of): (Aggregate, &Expr),
        pieces: &[Pushdown],
        cost_inputs: &mut CostInputs,
    ) -> Result<Option<Value>, ServiceError> {
        if let [piece] = pieces
            && piece.exact
            && counts_only(select)
        {
            let stretch = piece.order.whole();
            let (condition, parameters) = self.condition(piece, &stretch);
            let index = stretch.index.as_deref();
            let (connection, filter) = (self.connection, (&*condition, &*parameters));
            let count = self.container.count(connection, index, filter, None)?;
            cost_inputs.entries(count);
            return Ok(Some(count.into()));
        }
        let mut values = Vec::new();
        self.each(select, pieces, cost_inputs, |found| {
            for scope in found {
                self.context.begin_row();
                values.extend(scope.owned(of)?);
            }
            Ok(())
        })?;
        Ok(aggregate.fold(values))
    }

    /// Visits the bindings of all documents that meet the condition, document by document.
    fn each<'s>(
        &'s self,
        select: &'s Select,
        pieces: &[Pushdown],
        cost_inputs: &mut CostInputs,
        mut visit: impl FnMut(Vec<Scope<'s>>) -> Result<(), ServiceError>,
    ) -> Result<(), ServiceError> {
        let view = View::of(select);
        for piece in pieces {
            self.scan(piece, &piece.order.whole(), |row| {
                visit(self.matching(&view, (&row.body, piece), cost_inputs)?)?;
                Ok(true)
            })?;
        }
        Ok(())
    }

    /// All rows of a query.
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
            let pieces = self.pieces(select, &Position::default())?;
            if let Some(request) = rows::only_aggregate(select) {
                let value = self.folded(select, request, &pieces, &mut page.cost_inputs)?;
                return Ok(value.into_iter().collect());
            }
            self.each(select, &pieces, &mut page.cost_inputs, |found| {
                scopes.extend(found);
                Ok(())
            })?;
        }
        rows::finish(select, scopes, self.context)
    }
}

/// A query, and what of each document it looks at.
struct View<'a> {
    select: &'a Select,
    /// All that it looks at, unless that is everything.
    whole: Option<Part>,
    /// What its filter looks at.
    filter: Option<Part>,
}

impl<'a> View<'a> {
    fn of(select: &'a Select) -> Self {
        Self {
            select,
            whole: Part::of_query(select),
            filter: Part::of_filter(select),
        }
    }

    /// As much of a document as is needed first.
    fn first(&self, body: &str) -> Result<Value, ServiceError> {
        Ok(match self.whole.as_ref().or(self.filter.as_ref()) {
            Some(part) => part.read(body)?,
            None => serde_json::from_str(body)?,
        })
    }

    /// Whether that is only what the filter needs.
    fn reads_on(&self) -> bool {
        self.whole.is_none() && self.filter.is_some()
    }
}

/// A page while it is filled.
struct Stream<'a> {
    run: &'a Run<'a>,
    view: View<'a>,
    page: Page,
    bytes: usize,
    /// How many rows the query still wants.
    left: usize,
    /// How many rows it wants to pass over first.
    passed: usize,
    /// Where the page began, and behind every document that is done, where it has come to.
    position: Position,
}

impl Stream<'_> {
    /// Takes the rows of a document; whether there is room for more.
    fn visit(&mut self, row: Row, piece: &Pushdown) -> Result<bool, ServiceError> {
        if self.ends(0, &row) {
            return Ok(false);
        }
        // Another index than on the page before can find documents without rows before this one.
        let begun = &mut self.position.begun;
        let known = begun.take_if(|begun| begun.pk == row.pk && begun.id == row.id);
        let given = known.map_or(0, |begun| begun.rows);
        let document = (&*row.body, piece);
        let scopes = self
            .run
            .matching(&self.view, document, &mut self.page.cost_inputs)?;
        let mut at = 0;
        for scope in scopes {
            let Some(value) = scope.project(self.view.select)? else {
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
            if self.ends(at - 1, &row) {
                return Ok(false);
            }
            self.bytes += row.body.len();
            self.page.rows.push(value);
        }
        self.position.after = Some(After {
            keys: Order::keys(&row.keys),
            pk: row.pk,
            id: row.id,
        });
        Ok(true)
    }

    /// Whether the page ends before a row of a document; then it says where the next one begins.
    fn ends(&mut self, at: usize, row: &Row) -> bool {
        let count = self.page.rows.len();
        if count >= self.left {
            return true;
        }
        if count < self.run.limit && self.bytes < PAGE_BYTES {
            return false;
        }
        let begun = Begun {
            pk: row.pk.clone(),
            id: row.id.clone(),
            rows: at,
        };
        self.page.next = Some(Position {
            skip: self.position.skip.saturating_add(count),
            after: self.position.after.take(),
            begun: (at > 0).then_some(begun),
            index: self.position.index.clone(),
            piece: self.position.piece,
        });
        true
    }
}

/// All rows of a query, asked for page by page.
#[cfg(test)]
pub(crate) fn rows_of(
    connection: &Connection,
    container: &Container,
    text: &str,
    (parameters, limit): (std::collections::HashMap<String, Value>, usize),
) -> Result<Vec<Value>, ServiceError> {
    let select = crate::sql::parse(text)?;
    let context = Context::new(parameters, crate::clock::now());
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
        limit,
    };
    let mut rows = Vec::new();
    let mut position = Position::default();
    loop {
        let page = run.page(&select, position)?;
        assert!(page.rows.len() <= limit, "{text}");
        rows.extend(page.rows);
        let Some(next) = page.next else {
            return Ok(rows);
        };
        // As a token carries it.
        position = serde_json::from_value(serde_json::to_value(next)?)?;
    }
}
