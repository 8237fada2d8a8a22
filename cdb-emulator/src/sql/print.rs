//! Prints a tree as text that parses to the same tree. Operator chains are printed without
//! parentheses where possible; otherwise parentheses would nest as deep as a chain is long.

use std::fmt::{self, Display, Formatter, Write as _};

use serde_json::Value;

use super::ast::{Binary, Expr, Projection, Select, Source, Unary};
use super::parser::is_name;

impl Display for Select {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("SELECT ")?;
        if self.distinct {
            f.write_str("DISTINCT ")?;
        }
        if let Some(top) = &self.top {
            write!(f, "TOP {top} ")?;
        }
        write!(f, "{}", self.projection)?;
        self.print_from(f)?;
        if let Some(filter) = &self.filter {
            write!(f, " WHERE {filter}")?;
        }
        if !self.group_by.is_empty() {
            f.write_str(" GROUP BY ")?;
            list(f, &self.group_by)?;
        }
        for (at, item) in self.order_by.iter().enumerate() {
            f.write_str(match (at, self.rank) {
                (0, false) => " ORDER BY ",
                (0, true) => " ORDER BY RANK ",
                _ => ", ",
            })?;
            write!(f, "{}", item.expr)?;
            if item.descending {
                f.write_str(" DESC")?;
            }
        }
        match (&self.offset, &self.limit) {
            (Some(offset), Some(limit)) => write!(f, " OFFSET {offset} LIMIT {limit}"),
            _ => Ok(()),
        }
    }
}

impl Select {
    fn print_from(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut joins = self.joins.iter();
        match (&self.derived, joins.as_slice()) {
            (Some(derived), _) => {
                write!(f, " FROM ({derived})")?;
                alias(f, &self.alias)?;
            }
            // `FROM c.items i` and `FROM i IN c.items` bind the document implicitly.
            (None, [first, ..]) if self.starts_at_name() => {
                joins.next();
                f.write_str(" FROM ")?;
                print_source(f, &first.alias, &first.source)?;
            }
            (None, _) if self.alias.is_empty() => {}
            (None, _) => write!(f, " FROM {}", self.alias)?,
        }
        for join in joins {
            f.write_str(" JOIN ")?;
            print_source(f, &join.alias, &join.source)?;
        }
        Ok(())
    }

    /// Returns whether FROM starts with a name that is not the document: in a sub-query, and with
    /// `SELECT *`. Otherwise `FROM i IN c.items` is printed as `FROM c JOIN i IN c.items`, which is
    /// the same tree.
    fn starts_at_name(&self) -> bool {
        self.alias.is_empty() || self.projection == Projection::Star
    }
}

fn alias(f: &mut Formatter<'_>, alias: &str) -> fmt::Result {
    if alias.is_empty() {
        return Ok(());
    }
    write!(f, " AS {alias}")
}

fn print_source(f: &mut Formatter<'_>, name: &str, source: &Source) -> fmt::Result {
    match source {
        Source::Elements(expr) => write!(f, "{name} IN {expr}"),
        Source::ElementsOfRows(select) => write!(f, "{name} IN ({select})"),
        Source::Value(expr) => {
            write!(f, "{expr}")?;
            alias(f, name)
        }
        Source::Rows(select) => {
            write!(f, "({select})")?;
            alias(f, name)
        }
    }
}

impl Display for Projection {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Star => f.write_str("*"),
            Self::Value(expr) => write!(f, "VALUE {expr}"),
            Self::List(fields) => {
                for (at, (name, expr)) in fields.iter().enumerate() {
                    let comma = if at == 0 { "" } else { ", " };
                    write!(f, "{comma}{expr}")?;
                    // An expression without a name is called `$1`.
                    if is_name(name) && expr.inferred_name() != Some(name) {
                        write!(f, " AS {name}")?;
                    }
                }
                Ok(())
            }
        }
    }
}

fn list(f: &mut Formatter<'_>, items: &[Expr]) -> fmt::Result {
    for (at, item) in items.iter().enumerate() {
        let comma = if at == 0 { "" } else { ", " };
        write!(f, "{comma}{item}")?;
    }
    Ok(())
}

/// An operand: in parentheses unless it is atomic.
struct Operand<'a>(&'a Expr);

impl Display for Operand<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            Expr::Unary(..)
            | Expr::Binary(..)
            | Expr::In(..)
            | Expr::Between(..)
            | Expr::Like(..)
            | Expr::Conditional(..) => write!(f, "({})", self.0),
            // `--` would start a comment.
            Expr::Literal(Value::Number(number)) if number.as_f64() < Some(0.0) => {
                write!(f, "({number})")
            }
            single => write!(f, "{single}"),
        }
    }
}

impl Display for Expr {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Literal(value) => write!(f, "{value}"),
            Self::Undefined => f.write_str("undefined"),
            Self::Parameter(name) | Self::Name(name) => f.write_str(name),
            Self::Member(..) => print_member(f, self),
            Self::Unary(operator, operand) => {
                let sign = match operator {
                    Unary::Not => "NOT ",
                    Unary::Minus => "-",
                    Unary::Plus => "+",
                    Unary::BitNot => "~",
                };
                write!(f, "{sign}{}", Operand(operand))
            }
            Self::Binary(..) => print_chain(f, self),
            Self::In(needle, items) => {
                write!(f, "{} IN (", Operand(needle))?;
                list(f, items)?;
                f.write_char(')')
            }
            Self::Between(value, low, high) => {
                let (value, low, high) = (Operand(value), Operand(low), Operand(high));
                write!(f, "{value} BETWEEN {low} AND {high}")
            }
            Self::Like(text, pattern, escape) => {
                write!(f, "{} LIKE {}", Operand(text), Operand(pattern))?;
                match escape {
                    Some(escape) => write!(f, " ESCAPE {}", Value::from(escape.to_string())),
                    None => Ok(()),
                }
            }
            Self::Conditional(condition, yes, no) => {
                write!(f, "{} ? {yes} : {no}", Operand(condition))
            }
            Self::Call(function, arguments) => print_call(f, function.name, arguments),
            Self::Aggregate(aggregate, argument) => write!(f, "{}({argument})", aggregate.name()),
            Self::Object(fields) => {
                f.write_char('{')?;
                for (at, (name, value)) in fields.iter().enumerate() {
                    let comma = if at == 0 { "" } else { ", " };
                    write!(f, "{comma}{}: {value}", Value::from(&**name))?;
                }
                f.write_char('}')
            }
            Self::Array(items) => {
                f.write_char('[')?;
                list(f, items)?;
                f.write_char(']')
            }
            Self::Exists(select) => write!(f, "EXISTS({select})"),
            Self::Collect(select) => write!(f, "ARRAY({select})"),
            Self::Scalar(select) => write!(f, "({select})"),
            Self::Pick(pick, select) => write!(f, "{}({select})", pick.name()),
        }
    }
}

fn print_call(f: &mut Formatter<'_>, name: &str, arguments: &[Expr]) -> fmt::Result {
    write!(f, "{name}(")?;
    list(f, arguments)?;
    f.write_char(')')
}

fn print_member(f: &mut Formatter<'_>, expr: &Expr) -> fmt::Result {
    let mut keys = Vec::new();
    let mut at = expr;
    while let Expr::Member(parent, key) = at {
        keys.push(&**key);
        at = parent;
    }
    match at {
        // A dot after a number would be part of the number.
        Expr::Literal(Value::Number(_)) => write!(f, "({at})")?,
        at => write!(f, "{}", Operand(at))?,
    }
    for key in keys.into_iter().rev() {
        match key {
            Expr::Literal(Value::String(name)) if is_name(name) => write!(f, ".{name}")?,
            other => write!(f, "[{other}]")?,
        }
    }
    Ok(())
}

/// Adds the right operand of an operator, the last one of a chain of `AND` or `OR` first.
fn push_links<'e>(operator: Binary, right: &'e Expr, links: &mut Vec<(Binary, &'e Expr)>) {
    match right {
        Expr::Binary(first, same, rest) if *same == operator && operator.is_logical() => {
            push_links(operator, rest, links);
            push_links(operator, first, links);
        }
        right => links.push((operator, right)),
    }
}

/// Prints operators from left to right. If the next operator has a higher precedence, parentheses
/// enclose everything before it.
fn print_chain(f: &mut Formatter<'_>, chain: &Expr) -> fmt::Result {
    let mut links = Vec::new();
    let mut at = chain;
    while let Expr::Binary(left, operator, right) = at {
        push_links(*operator, right, &mut links);
        at = left;
    }
    links.reverse();
    let opens = |at: usize| {
        let tighter = links.get(at + 1).map(|(next, _)| next.level());
        tighter.is_some_and(|next| next > links[at].0.level())
    };
    let count = (0..links.len()).filter(|at| opens(*at)).count();
    f.write_str(&"(".repeat(count))?;
    write!(f, "{}", Operand(at))?;
    for (at, (operator, right)) in links.iter().enumerate() {
        write!(f, " {} {}", operator.symbol(), Operand(right))?;
        if opens(at) {
            f.write_char(')')?;
        }
    }
    Ok(())
}
