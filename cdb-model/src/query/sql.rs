//! Writes SQL. No other module does.
//!
//! The text depends on the model only; values are parameters. The condition of a patch cannot have
//! parameters, so its values are JSON literals, in which every quotation mark and backslash is
//! escaped.

use std::fmt::Write as _;

use serde_json::Value;

use super::filter::{Comparison, Predicate, ValueError};
use super::groups::{AggregateKind, AggregateTerm};
use super::order::OrderTerm;
use super::projection::ProjectedField;
use super::statement::Parameter;
use crate::shape::{CompositeTarget, Direction};

/// What a query returns.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Projection {
    /// The whole document.
    Document,
    /// One path, and the sort keys.
    Value(String),
    /// Some paths under the names of a projection, and the sort keys.
    Fields(&'static [ProjectedField]),
    /// Partial aggregates of each group of equal keys; without aggregates, the distinct keys.
    Aggregates {
        keys: Vec<&'static str>,
        terms: Vec<AggregateTerm>,
    },
}

/// The parts of a query.
#[derive(Clone, Debug)]
pub(crate) struct QueryParts<'a> {
    pub(crate) projection: &'a Projection,
    pub(crate) predicate: &'a Predicate,
    pub(crate) order: &'a [OrderTerm],
    pub(crate) top: Option<u32>,
    /// The name of the discriminator.
    pub(crate) discriminator: &'a str,
}

/// Writes a query.
///
/// # Errors
/// When the predicate has a value that cannot be serialized.
pub(crate) fn query(parts: &QueryParts<'_>) -> Result<(String, Vec<Parameter>), ValueError> {
    let mut writer = Writer::new(parts.discriminator, Values::Parameters);
    writer.text.push_str("SELECT ");
    if let Some(top) = parts.top {
        // A number of the program, not data. The service does not allow a parameter here
        // everywhere.
        let _written = write!(writer.text, "TOP {top} ");
    }
    writer.projection(parts);
    writer.text.push_str(" FROM c");
    if *parts.predicate != Predicate::All {
        writer.text.push_str(" WHERE ");
        writer.predicate(parts.predicate);
    }
    writer.group_by(parts.projection);
    if !parts.order.is_empty() {
        writer.text.push_str(" ORDER BY ");
        writer.separated(parts.order, |writer, term| {
            writer.target(term.target);
            writer.text.push_str(match term.direction {
                Direction::Ascending => " ASC",
                Direction::Descending => " DESC",
            });
        });
    }
    match writer.invalid {
        None => Ok((writer.text, writer.parameters)),
        Some(error) => Err(error),
    }
}

/// Writes the condition of a patch.
///
/// # Errors
/// When the predicate has a value that cannot be serialized.
pub(crate) fn patch_condition(predicate: &Predicate) -> Result<String, ValueError> {
    // A patch names its document, so the condition has no type and needs no discriminator.
    let mut writer = Writer::new("", Values::Literals);
    writer.text.push_str("from c where ");
    writer.predicate(predicate);
    match writer.invalid {
        None => Ok(writer.text),
        Some(error) => Err(error),
    }
}

/// Writes a condition for a message.
pub(crate) fn readable(predicate: &Predicate, discriminator: &str) -> String {
    let mut writer = Writer::new(discriminator, Values::Literals);
    writer.predicate(predicate);
    writer.text
}

#[derive(Clone, Copy, PartialEq)]
enum Values {
    Parameters,
    Literals,
}

struct Writer<'a> {
    text: String,
    parameters: Vec<Parameter>,
    discriminator: &'a str,
    values: Values,
    /// The first value that cannot be serialized.
    invalid: Option<ValueError>,
}

impl<'a> Writer<'a> {
    fn new(discriminator: &'a str, values: Values) -> Self {
        Self {
            text: String::new(),
            parameters: Vec::new(),
            discriminator,
            values,
            invalid: None,
        }
    }

    fn projection(&mut self, parts: &QueryParts<'_>) {
        match parts.projection {
            Projection::Document => self.text.push('*'),
            Projection::Value(path) => {
                self.value_with_keys(parts.order, |writer| writer.path(path));
            }
            Projection::Fields(fields) => {
                self.value_with_keys(parts.order, |writer| writer.fields(fields));
            }
            Projection::Aggregates { keys, terms } => self.aggregates(keys, terms),
        }
    }

    fn value_with_keys(&mut self, order: &[OrderTerm], value: impl FnOnce(&mut Self)) {
        self.text.push_str("VALUE {\"value\": ");
        value(self);
        self.text.push_str(", \"keys\": [");
        // In objects, because an array leaves out undefined elements.
        self.separated(order, |writer, term| {
            writer.text.push_str("{\"item\": ");
            writer.target(term.target);
            writer.text.push('}');
        });
        self.text.push_str("]}");
    }

    fn fields(&mut self, fields: &[ProjectedField]) {
        self.text.push('{');
        self.separated(fields, |writer, field| {
            let _written = write!(writer.text, "{}: ", Value::from(field.name));
            writer.path(field.pointer);
        });
        self.text.push('}');
    }

    /// Writes keys and partial aggregates in the form of the service's own plans.
    fn aggregates(&mut self, keys: &[&str], terms: &[AggregateTerm]) {
        if terms.is_empty() {
            self.text.push_str("DISTINCT ");
        }
        if !keys.is_empty() {
            self.text.push('[');
            self.separated(keys, |writer, key| {
                writer.text.push_str("{\"item\": ");
                writer.path(key);
                writer.text.push('}');
            });
            self.text.push_str("] AS keys");
        }
        if !terms.is_empty() {
            self.text
                .push_str(if keys.is_empty() { "[" } else { ", [" });
            self.separated(terms, |writer, term| {
                writer.text.push_str("{\"item\": ");
                writer.aggregate(term);
                writer.text.push('}');
            });
            self.text.push_str("] AS items");
        }
    }

    fn group_by(&mut self, projection: &Projection) {
        if let Projection::Aggregates { keys, terms } = projection
            && !keys.is_empty()
            && !terms.is_empty()
        {
            self.text.push_str(" GROUP BY ");
            self.separated(keys, |writer, key| writer.path(key));
        }
    }

    fn aggregate(&mut self, term: &AggregateTerm) {
        match term.kind {
            AggregateKind::Count => self.text.push_str("COUNT(1)"),
            AggregateKind::Sum => self.aggregate_call("SUM", term),
            AggregateKind::Min => self.aggregate_call("MIN", term),
            AggregateKind::Max => self.aggregate_call("MAX", term),
            AggregateKind::Average => {
                self.text.push_str("{\"sum\": ");
                self.aggregate_call("SUM", term);
                self.text.push_str(", \"count\": ");
                self.aggregate_call("COUNT", term);
                self.text.push('}');
            }
        }
    }

    fn aggregate_call(&mut self, function: &str, term: &AggregateTerm) {
        let _written = write!(self.text, "{function}(");
        if term.may_be_null {
            self.call("IS_NULL", term.pointer, None);
            self.text.push_str(" ? undefined : ");
        }
        self.path(term.pointer);
        self.text.push(')');
    }

    fn separated<E>(&mut self, elements: &[E], mut write: impl FnMut(&mut Self, &E)) {
        for (number, element) in elements.iter().enumerate() {
            if number > 0 {
                self.text.push_str(", ");
            }
            write(self, element);
        }
    }

    fn property(&mut self, name: &str) {
        // `Display` of a JSON string is its literal.
        let _written = write!(self.text, "[{}]", Value::from(name));
    }

    fn path(&mut self, pointer: &str) {
        self.text.push('c');
        for name in pointer.split('/').filter(|name| !name.is_empty()) {
            self.property(name);
        }
    }

    fn target(&mut self, target: CompositeTarget) {
        match target {
            CompositeTarget::Path(pointer) => self.path(pointer),
            CompositeTarget::Discriminator => {
                self.text.push('c');
                self.property(self.discriminator);
            }
        }
    }

    fn value(&mut self, value: &Value) {
        if self.values == Values::Literals {
            let _written = write!(self.text, "{value}");
            return;
        }
        let known = self
            .parameters
            .iter()
            .find(|parameter| parameter.value == *value);
        if let Some(parameter) = known {
            self.text.push_str(&parameter.name);
            return;
        }
        let name = format!("@p{}", self.parameters.len());
        self.text.push_str(&name);
        self.parameters.push(Parameter {
            name,
            value: value.clone(),
        });
    }

    fn comparison(&mut self, pointer: &str, comparison: Comparison, value: &Value) {
        self.path(pointer);
        self.text.push(' ');
        self.text.push_str(comparison.symbol());
        self.text.push(' ');
        self.value(value);
    }

    fn call(&mut self, function: &str, pointer: &str, value: Option<&Value>) {
        self.text.push_str(function);
        self.text.push('(');
        self.path(pointer);
        if let Some(value) = value {
            self.text.push_str(", ");
            self.value(value);
        }
        self.text.push(')');
    }

    fn list(&mut self, predicates: &[Predicate], word: &str) {
        self.text.push('(');
        for (number, predicate) in predicates.iter().enumerate() {
            if number > 0 {
                self.text.push_str(word);
            }
            self.predicate(predicate);
        }
        self.text.push(')');
    }

    fn predicate(&mut self, predicate: &Predicate) {
        match predicate {
            Predicate::All => self.text.push_str("true"),
            Predicate::Never => self.text.push_str("false"),
            Predicate::IsType(discriminator) => {
                self.target(CompositeTarget::Discriminator);
                self.text.push_str(" = ");
                self.value(&Value::from(*discriminator));
            }
            Predicate::Compare(path, comparison, value) => {
                self.comparison(path, *comparison, value);
            }
            Predicate::In(path, values) => {
                self.path(path);
                self.text.push_str(" IN (");
                self.separated(values, Writer::value);
                self.text.push(')');
            }
            Predicate::Invalid(error) => {
                let _written = write!(self.text, "<{error}>");
                self.invalid.get_or_insert_with(|| error.clone());
            }
            Predicate::IsNull(path) => self.call("IS_NULL", path, None),
            Predicate::IsDefined(path) => self.call("IS_DEFINED", path, None),
            Predicate::Text(path, function, value, ignore_case) => {
                self.call(function.function(), path, Some(value));
                if *ignore_case {
                    self.text.pop();
                    self.text.push_str(", true)");
                }
            }
            Predicate::ArrayContains(path, value) => self.call("ARRAY_CONTAINS", path, Some(value)),
            Predicate::And(predicates) => self.list(predicates, " AND "),
            Predicate::Or(predicates) => self.list(predicates, " OR "),
            Predicate::Not(inner) => {
                self.text.push_str("NOT (");
                self.predicate(inner);
                self.text.push(')');
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parts<'a>(projection: &'a Projection, predicate: &'a Predicate) -> QueryParts<'a> {
        QueryParts {
            projection,
            predicate,
            order: &[],
            top: None,
            discriminator: "type",
        }
    }

    #[test]
    fn values_are_parameters_and_equal_values_share_one() {
        let predicate = Predicate::And(vec![
            Predicate::IsType("order"),
            Predicate::Compare("/a/b".to_owned(), Comparison::Less, json!("x\"; DROP")),
            Predicate::In("/c".to_owned(), vec![json!(1), json!("order")]),
        ]);
        let (sql, parameters) = query(&parts(&Projection::Document, &predicate)).unwrap();
        assert_eq!(
            sql,
            r#"SELECT * FROM c WHERE (c["type"] = @p0 AND c["a"]["b"] < @p1 AND c["c"] IN (@p2, @p0))"#
        );
        let values: Vec<_> = parameters.into_iter().map(|p| p.value).collect();
        assert_eq!(values, [json!("order"), json!("x\"; DROP"), json!(1)]);
    }

    #[test]
    fn a_projected_value_has_its_sort_keys() {
        let order = [OrderTerm {
            target: CompositeTarget::Path("/at"),
            direction: Direction::Descending,
        }];
        let projection = Projection::Value("/name".to_owned());
        let (sql, _) = query(&QueryParts {
            order: &order,
            top: Some(3),
            ..parts(&projection, &Predicate::All)
        })
        .unwrap();
        assert_eq!(
            sql,
            r#"SELECT TOP 3 VALUE {"value": c["name"], "keys": [{"item": c["at"]}]} FROM c ORDER BY c["at"] DESC"#
        );
    }

    #[test]
    fn aggregates_have_the_form_of_the_services_plans() {
        let term = |kind, pointer, may_be_null| AggregateTerm {
            kind,
            pointer,
            may_be_null,
        };
        let projection = Projection::Aggregates {
            keys: vec!["/g"],
            terms: vec![
                term(AggregateKind::Count, "", false),
                term(AggregateKind::Max, "/a/b", true),
                term(AggregateKind::Average, "/n", false),
            ],
        };
        let (sql, _) = query(&parts(&projection, &Predicate::All)).unwrap();
        assert_eq!(
            sql,
            concat!(
                r#"SELECT [{"item": c["g"]}] AS keys, [{"item": COUNT(1)}, "#,
                r#"{"item": MAX(IS_NULL(c["a"]["b"]) ? undefined : c["a"]["b"])}, "#,
                r#"{"item": {"sum": SUM(c["n"]), "count": COUNT(c["n"])}}] AS items "#,
                r#"FROM c GROUP BY c["g"]"#
            )
        );
    }

    #[test]
    fn distinct_keys_have_no_groups() {
        let projection = Projection::Aggregates {
            keys: vec!["/g"],
            terms: Vec::new(),
        };
        let (sql, _) = query(&parts(&projection, &Predicate::All)).unwrap();
        assert_eq!(sql, r#"SELECT DISTINCT [{"item": c["g"]}] AS keys FROM c"#);
    }

    #[test]
    fn a_literal_cannot_leave_its_quotation_marks() {
        let text = "\\\" OR 1=1 --\n";
        let condition = patch_condition(&Predicate::Compare(
            "/name".to_owned(),
            Comparison::Equal,
            json!(text),
        ))
        .unwrap();
        let literal = condition
            .strip_prefix(r#"from c where c["name"] = "#)
            .unwrap();
        assert_eq!(serde_json::from_str::<String>(literal).unwrap(), text);
    }
}
