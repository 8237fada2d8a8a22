//! Writes the parts of a statement.

use std::collections::HashMap;
use std::fmt::Write as _;

use serde_json::Value;

use super::aggregate::{AggregateKind, AggregateTerm};
use super::expression::{path, property};
use super::fragment::{Fragment, Piece};
use super::order::{OrderTerm, SortTarget};
use super::parameter::Parameter;
use super::parts::{Projection, QueryParts};
use super::predicate::{Comparison, IndexUse, Predicate};
use super::score::{RankTerm, Score};
use super::value_error::ValueError;

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Values {
    Parameters,
    Literals,
}

pub(super) struct Writer<'a> {
    pub(super) text: String,
    pub(super) parameters: Vec<Parameter>,
    /// The indexes of the parameters.
    known: HashMap<Value, usize>,
    discriminator: &'a str,
    values: Values,
    /// The first value that cannot be serialized.
    pub(super) invalid: Option<ValueError>,
}

impl<'a> Writer<'a> {
    pub(super) fn new(discriminator: &'a str, values: Values) -> Self {
        Self {
            text: String::new(),
            parameters: Vec::new(),
            known: HashMap::new(),
            discriminator,
            values,
            invalid: None,
        }
    }

    pub(super) fn projection(&mut self, parts: &QueryParts<'_>) {
        match parts.projection {
            Projection::Document => self.text.push('*'),
            Projection::Value(value) => self.value_with_keys(parts.order, value),
            Projection::Aggregates { keys, terms } => self.aggregates(keys, terms),
        }
    }

    /// Writes text, paths and values.
    pub(super) fn fragment(&mut self, fragment: &Fragment) {
        for piece in &fragment.pieces {
            match piece {
                Piece::Text(sql) => self.text.push_str(sql),
                Piece::Path(pointer) => self.path(pointer),
                Piece::Value(value) => self.value(value),
            }
        }
        if let Some(error) = &fragment.invalid {
            self.invalid.get_or_insert_with(|| error.clone());
        }
    }

    fn value_with_keys(&mut self, order: &[OrderTerm], value: &Fragment) {
        self.text.push_str("VALUE {\"value\": ");
        self.fragment(value);
        self.text.push_str(", \"keys\": [");
        // In objects, because an array leaves out undefined elements.
        self.separated(order, |writer, term| {
            writer.text.push_str("{\"item\": ");
            writer.target(&term.target);
            writer.text.push('}');
        });
        self.text.push_str("]}");
    }

    /// Writes a document with its score, by which the rows of several partitions are merged.
    pub(super) fn document_with_score(&mut self, term: &RankTerm) {
        self.text
            .push_str("VALUE {\"value\": {\"document\": c, \"score\": ");
        self.rank(term);
        self.text.push_str("}, \"keys\": [{\"item\": ");
        self.rank(term);
        self.text.push_str("}]}");
    }

    /// Writes a score.
    pub(super) fn rank(&mut self, term: &RankTerm) {
        match &term.score {
            Score::Distance(vector) => self.call("VectorDistance", term.pointer, Some(vector)),
            Score::Words(words) => {
                self.text.push_str("FullTextScore(");
                self.path(term.pointer);
                // The service takes no parameters here.
                for word in words {
                    let _written = write!(self.text, ", {}", Value::from(word.as_str()));
                }
                self.text.push(')');
            }
        }
    }

    /// Writes the fusion of several scores, with their weights.
    pub(super) fn fused(&mut self, terms: &[RankTerm]) {
        self.text.push_str("RRF(");
        self.separated(terms, Writer::rank);
        if terms.iter().any(|term| term.weight.is_some()) {
            self.text.push_str(", [");
            self.separated(terms, |writer, term| {
                let _written = write!(writer.text, "{}", term.weight.unwrap_or(1.0));
            });
            self.text.push(']');
        }
        self.text.push(')');
    }

    /// Writes keys and partial aggregates in the form of the service's own plans.
    fn aggregates(&mut self, keys: &[Fragment], terms: &[AggregateTerm]) {
        if terms.is_empty() {
            self.text.push_str("DISTINCT ");
        }
        if !keys.is_empty() {
            self.text.push('[');
            self.separated(keys, |writer, key| {
                writer.text.push_str("{\"item\": ");
                writer.fragment(key);
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

    pub(super) fn group_by(&mut self, projection: &Projection) {
        if let Projection::Aggregates { keys, terms } = projection
            && !keys.is_empty()
            && !terms.is_empty()
        {
            self.text.push_str(" GROUP BY ");
            self.separated(keys, Writer::fragment);
        }
    }

    fn aggregate(&mut self, term: &AggregateTerm) {
        match term.kind {
            AggregateKind::Count => self.aggregate_call("COUNT", term),
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
        self.fragment(&term.argument);
        self.text.push(')');
    }

    pub(super) fn separated<E>(&mut self, elements: &[E], mut write: impl FnMut(&mut Self, &E)) {
        for (number, element) in elements.iter().enumerate() {
            if number > 0 {
                self.text.push_str(", ");
            }
            write(self, element);
        }
    }

    fn path(&mut self, pointer: &str) {
        path(&mut self.text, pointer);
    }

    pub(super) fn target(&mut self, target: &SortTarget) {
        match target {
            SortTarget::Path(pointer) => self.path(pointer),
            SortTarget::Discriminator => {
                self.text.push('c');
                property(&mut self.text, self.discriminator);
            }
        }
    }

    fn value(&mut self, value: &Value) {
        if self.values == Values::Literals {
            let _written = write!(self.text, "{value}");
            return;
        }
        if let Some(known) = self.known.get(value) {
            let _written = write!(self.text, "@p{known}");
            return;
        }
        let next = self.parameters.len();
        self.known.insert(value.clone(), next);
        let name = format!("@p{next}");
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

    pub(super) fn predicate(&mut self, predicate: &Predicate) {
        match predicate {
            Predicate::All => self.text.push_str("true"),
            Predicate::Never => self.text.push_str("false"),
            Predicate::IsType(discriminator) => {
                self.target(&SortTarget::Discriminator);
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
            Predicate::FullText(path, matches, words) => {
                self.text.push_str(matches.function());
                self.text.push('(');
                self.path(path);
                for word in words {
                    self.text.push_str(", ");
                    self.value(word);
                }
                self.text.push(')');
            }
            // `OR` and `?` bind less than the `AND` around them.
            Predicate::Sql(condition, IndexUse::Unserved) => {
                self.text.push('(');
                self.fragment(condition);
                self.text.push(')');
            }
            Predicate::Sql(condition, _) => self.fragment(condition),
            Predicate::And(predicates) => self.list(predicates, " AND "),
            Predicate::Or(predicates) => self.list(predicates, " OR "),
            Predicate::Partial(inner, _) => self.predicate(inner),
            Predicate::Not(inner) => {
                self.text.push_str("NOT (");
                self.predicate(inner);
                self.text.push(')');
            }
        }
    }
}
