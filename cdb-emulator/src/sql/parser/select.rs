//! The grammar of clauses. A query reads documents, a sub-query reads names of the outer query.

use super::cursor::{Parsed, Parser, Unbound};
use crate::sql::ast::{Expr, Join, OrderItem, Projection, Select, Source};
use crate::sql::error::{self, Location};
use crate::sql::lexer::Token;

/// Maximum number of JOINs of a query:
/// <https://learn.microsoft.com/azure/cosmos-db/concepts-limits>.
const MAX_JOINS: usize = 10;

/// A FROM clause: the name of the document or the derived query, the bound names, and the names
/// that an outer query binds.
#[derive(Default)]
struct From {
    alias: String,
    derived: Option<Box<Select>>,
    joins: Vec<Join>,
    /// The names that other clauses can use.
    bound: Vec<String>,
    outer: Vec<Unbound>,
    /// The number of joined sets; `SELECT *` requires one.
    sets: usize,
}

impl Parser<'_> {
    /// Parses a query over documents.
    pub(super) fn query(&mut self) -> Parsed<Select> {
        self.select(Self::over_documents, false)
    }

    /// Parses a sub-query over names of the outer query.
    pub(super) fn sub_query(&mut self) -> Parsed<Select> {
        self.select(Self::over_names, true)
    }

    fn select(&mut self, from: fn(&mut Self) -> Parsed<From>, inside: bool) -> Parsed<Select> {
        self.nested(|parser| parser.clauses(from, inside))
    }

    fn clauses(&mut self, from: fn(&mut Self) -> Parsed<From>, inside: bool) -> Parsed<Select> {
        let mark = self.unbound.len();
        self.expect_word("SELECT")?;
        let distinct = self.word("DISTINCT");
        let top = self.count("TOP")?;
        let star = self.location();
        let projection = self.projection()?;
        let projected = self.since(&star);
        let from = if self.word("FROM") {
            from(self)?
        } else {
            From::default()
        };
        let filter = if self.word("WHERE") {
            Some(self.condition()?)
        } else {
            None
        };
        let group_by = self.group_by()?;
        let order = self.location();
        let (rank, order_by) = self.order_by()?;
        let order = self.since(&order);
        let skipped = self.location();
        let offset = self.count("OFFSET")?;
        let limit = self.count("LIMIT")?;
        if offset.is_some() != limit.is_some() {
            return Err(self.unexpected());
        }
        let skipped = self.since(&skipped);
        if inside && !order_by.is_empty() {
            return Err(error::order_by_in_subquery(self.text, order));
        }
        if inside && offset.is_some() {
            return Err(error::offset_in_subquery(self.text, skipped));
        }
        self.after_query()?;
        self.check_star(&projection, &projected, from.sets)?;
        self.check_groups(&projection, &group_by, &projected)?;
        if !order_by.is_empty() && !group_by.is_empty() {
            let cause = "'ORDER BY' is not supported together with 'GROUP BY'.";
            return Err(error::semantic(self.text, order, cause));
        }
        let mut rest = self.resolve(mark, &from.bound);
        rest.extend(from.outer);
        self.unbound.extend(rest);
        Ok(Select {
            distinct,
            top,
            projection,
            alias: from.alias,
            derived: from.derived,
            joins: from.joins,
            filter,
            group_by,
            rank,
            order_by,
            unindexed_sort: false,
            offset,
            limit,
        })
    }

    /// Parses `TOP`, `OFFSET` or `LIMIT` with a number or a parameter.
    fn count(&mut self, word: &str) -> Parsed<Option<Expr>> {
        if !self.word(word) {
            return Ok(None);
        }
        match self.peek() {
            Token::Number(_) | Token::Parameter(_) => self.primary().map(Some),
            _ => Err(self.unexpected()),
        }
    }

    fn projection(&mut self) -> Parsed<Projection> {
        if self.symbol("*") {
            return Ok(Projection::Star);
        }
        if self.word("VALUE") {
            return Ok(Projection::Value(self.expr()?));
        }
        let mut unnamed = 0;
        let fields = self.list(|parser| {
            let expr = parser.expr()?;
            let name = if parser.word("AS") || parser.is_name() {
                parser.name()?
            } else {
                let inferred = expr.inferred_name();
                unnamed += usize::from(inferred.is_none());
                inferred.map_or_else(|| format!("${unnamed}"), str::to_owned)
            };
            Ok((name, expr))
        })?;
        Ok(Projection::List(fields))
    }

    fn check_star(&self, projection: &Projection, location: &Location, sets: usize) -> Parsed<()> {
        let cause = match (projection, sets) {
            (Projection::Star, 0) => "'SELECT *' is not valid if FROM clause is omitted.",
            (Projection::Star, 2..) => "'SELECT *' is only valid with a single input set.",
            _ => return Ok(()),
        };
        Err(error::semantic(self.text, location.clone(), cause))
    }

    /// Checks that a query with groups or aggregates returns only grouping expressions, aggregates
    /// and constants.
    fn check_groups(
        &self,
        projection: &Projection,
        groups: &[Expr],
        location: &Location,
    ) -> Parsed<()> {
        let fits =
            |expr: &Expr| (groups.is_empty() && !expr.has_aggregate()) || expr.is_grouped(groups);
        let fits = match projection {
            Projection::Star => groups.is_empty(),
            Projection::Value(expr) => fits(expr),
            Projection::List(fields) if fields.iter().any(|(_, expr)| expr.has_aggregate()) => {
                fields.iter().all(|(_, expr)| expr.is_grouped(groups))
            }
            Projection::List(fields) => fields.iter().all(|(_, expr)| fits(expr)),
        };
        if fits {
            return Ok(());
        }
        let cause = "Property reference is invalid in the select list because it is not contained in either an \
                     aggregate function or the GROUP BY clause.";
        Err(error::semantic(self.text, location.clone(), cause))
    }

    /// Parses a condition, which cannot contain aggregates.
    fn condition(&mut self) -> Parsed<Expr> {
        let location = self.location();
        let expr = self.expr()?;
        if !expr.has_aggregate() {
            return Ok(expr);
        }
        let cause =
            "Cannot perform an aggregate function here; aggregates are allowed in SELECT only.";
        Err(error::semantic(self.text, self.since(&location), cause))
    }

    fn group_by(&mut self) -> Parsed<Vec<Expr>> {
        if !self.word("GROUP") {
            return Ok(Vec::new());
        }
        self.expect_word("BY")?;
        self.list(Self::condition)
    }

    /// Parses `ORDER BY` and `ORDER BY RANK`.
    fn order_by(&mut self) -> Parsed<(bool, Vec<OrderItem>)> {
        if !self.word("ORDER") {
            return Ok((false, Vec::new()));
        }
        self.expect_word("BY")?;
        let rank = self.is_rank();
        if rank {
            self.next();
        }
        let items = self.list(|parser| {
            let expr = parser.condition()?;
            let descending = parser.word("DESC");
            if !descending {
                parser.word("ASC");
            }
            Ok(OrderItem { expr, descending })
        })?;
        Ok((rank, items))
    }

    /// Parses `FROM c`, `FROM root r`, `FROM c.items i`, `FROM i IN c.items` or `FROM (SELECT …)
    /// r`. The first name is bound to the document.
    fn over_documents(&mut self) -> Parsed<From> {
        let mut from = From::default();
        if self.symbol("(") {
            let select = self.select(Self::over_documents, true)?;
            self.expect(")")?;
            from.alias = self.alias()?.unwrap_or_default();
            from.bound.push(from.alias.clone());
            from.derived = Some(select.into());
        } else {
            let first = self.name()?;
            if self.word("IN") {
                let root = self.name()?;
                let path = self.path(&root)?;
                from.alias = root;
                from.bind(first, Source::Elements(path));
            } else {
                let path = self.path(&first)?;
                let alias = self.alias()?;
                if matches!(path, Expr::Name(_)) {
                    from.alias = alias.unwrap_or(first);
                    from.bound.push(from.alias.clone());
                } else {
                    from.alias = first;
                    from.bind(
                        alias
                            .unwrap_or_else(|| path.inferred_name().unwrap_or_default().to_owned()),
                        Source::Value(path),
                    );
                }
            }
        }
        from.sets += 1;
        self.joins(from)
    }

    /// Parses FROM in a sub-query, over names of the outer query.
    fn over_names(&mut self) -> Parsed<From> {
        let mut from = From::default();
        self.source(&mut from)?;
        self.joins(from)
    }

    fn joins(&mut self, mut from: From) -> Parsed<From> {
        while self.is_word("JOIN") {
            let location = self.location();
            self.next();
            self.source(&mut from)?;
            if from.sets > MAX_JOINS + 1 {
                let cause = format!("The query has more than {MAX_JOINS} joins.");
                return Err(error::semantic(self.text, location, &cause));
            }
        }
        Ok(from)
    }

    /// Parses `t IN c.tags`, `t IN (SELECT …)`, `(SELECT …) t` or `c.address a`.
    fn source(&mut self, from: &mut From) -> Parsed<()> {
        let mark = self.unbound.len();
        let (alias, source) = if self.symbol("(") {
            let select = self.sub_query()?;
            self.expect(")")?;
            (
                self.alias()?.unwrap_or_default(),
                Source::Rows(select.into()),
            )
        } else {
            let location = self.location();
            let first = self.name()?;
            if self.word("IN") {
                (first, self.elements()?)
            } else {
                self.use_name(&first, location);
                let path = self.path(&first)?;
                let alias = self.alias()?;
                let inferred = || path.inferred_name().unwrap_or_default().to_owned();
                (alias.unwrap_or_else(inferred), Source::Value(path))
            }
        };
        let outer = self.resolve(mark, &from.bound);
        from.outer.extend(outer);
        from.bind(alias, source);
        from.sets += 1;
        Ok(())
    }

    fn elements(&mut self) -> Parsed<Source> {
        if self.symbol("(") {
            let select = self.sub_query()?;
            self.expect(")")?;
            return Ok(Source::ElementsOfRows(select.into()));
        }
        let location = self.location();
        let root = self.name()?;
        self.use_name(&root, location);
        self.path(&root).map(Source::Elements)
    }

    /// Parses the properties after a name: `.a`, `["b"]`, `[0]`.
    fn path(&mut self, root: &str) -> Parsed<Expr> {
        let mut path = Expr::Name(root.to_owned());
        for at in 0.. {
            if self.symbol(".") {
                self.link(at)?;
                let name = self.name()?;
                path = Expr::Member(path.into(), Expr::Literal(name.into()).into());
            } else if self.symbol("[") {
                self.link(at)?;
                let key = match self.peek() {
                    Token::Number(_) | Token::Text(_) => self.primary()?,
                    _ => return Err(self.unexpected()),
                };
                self.expect("]")?;
                path = Expr::Member(path.into(), key.into());
            } else {
                break;
            }
        }
        Ok(path)
    }

    fn alias(&mut self) -> Parsed<Option<String>> {
        if self.word("AS") || self.is_name() {
            return self.name().map(Some);
        }
        Ok(None)
    }
}

impl From {
    fn bind(&mut self, alias: String, source: Source) {
        self.bound.push(alias.clone());
        self.joins.push(Join { alias, source });
    }
}
