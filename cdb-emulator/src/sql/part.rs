//! The part of a document that a query reads: the properties that its text names.
//!
//! A count, or a filter on a small property, need not parse the other properties of a large
//! document.

use std::collections::BTreeSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::{Map, Value};

use super::ast::{Expr, Projection, Select, Source};

/// The names of top-level properties.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Part {
    names: BTreeSet<String>,
}

impl Part {
    /// Returns the part that a query reads; `None` if it may read any property.
    pub(crate) fn of_query(select: &Select) -> Option<Self> {
        let mut search = Search::of(select)?;
        search.query(select)?;
        Some(search.found)
    }

    /// Returns the part that the filter of a query reads; `None` also without a filter, and with
    /// joins.
    pub(crate) fn of_filter(select: &Select) -> Option<Self> {
        let mut search = Search::of(select)?;
        if !select.joins.is_empty() {
            return None;
        }
        search.expression(select.filter.as_ref()?)?;
        Some(search.found)
    }

    /// Parses only this part of a document.
    pub(crate) fn read(&self, body: &str) -> serde_json::Result<Value> {
        let mut json = serde_json::Deserializer::from_str(body);
        json.deserialize_map(self).map(Value::Object)
    }
}

/// Collects the properties that a query reads; `None` as soon as it may read any property.
struct Search<'a> {
    alias: &'a str,
    found: Part,
}

impl<'a> Search<'a> {
    fn of(select: &'a Select) -> Option<Self> {
        // A row of another query is not a stored document.
        let stored = select.derived.is_none() && !select.alias.is_empty();
        stored.then(|| Self {
            alias: &select.alias,
            found: Part::default(),
        })
    }

    fn query(&mut self, select: &Select) -> Option<()> {
        match &select.projection {
            Projection::Star => return None,
            Projection::Value(value) => self.expression(value)?,
            Projection::List(fields) => {
                for (_, value) in fields {
                    self.expression(value)?;
                }
            }
        }
        for join in &select.joins {
            match &join.source {
                Source::Value(of) | Source::Elements(of) => self.expression(of)?,
                Source::Rows(inner) | Source::ElementsOfRows(inner) => self.query(inner)?,
            }
        }
        if let Some(derived) = &select.derived {
            self.query(derived)?;
        }
        let sort = select.order_by.iter().map(|item| &item.expr);
        let edges = [&select.top, &select.offset, &select.limit];
        let all = select.filter.iter().chain(&select.group_by).chain(sort);
        for expr in all.chain(edges.into_iter().flatten()) {
            self.expression(expr)?;
        }
        Some(())
    }

    /// Visits an expression without recursion, because operator chains can be long.
    fn expression<'e>(&mut self, whole: &'e Expr) -> Option<()> {
        let mut open: Vec<&'e Expr> = vec![whole];
        while let Some(expr) = open.pop() {
            match expr {
                // Other names are bound to parts of the document, which are visited where they are
                // bound.
                Expr::Name(name) if name == self.alias => return None,
                Expr::Member(of, key) => match (&**of, &**key) {
                    (Expr::Name(name), Expr::Literal(Value::String(key))) if name == self.alias => {
                        self.found.names.insert(key.clone());
                    }
                    (of, key) => open.extend([of, key]),
                },
                Expr::Unary(_, a) | Expr::Aggregate(_, a) => open.push(a),
                Expr::Binary(a, _, b) | Expr::Like(a, b, _) => open.extend([&**a, &**b]),
                Expr::Between(a, b, c) | Expr::Conditional(a, b, c) => {
                    open.extend([&**a, &**b, &**c]);
                }
                Expr::In(a, list) => {
                    open.push(a);
                    open.extend(&**list);
                }
                Expr::Call(_, items) | Expr::Array(items) => {
                    open.extend(items);
                }
                Expr::Object(fields) => open.extend(fields.iter().map(|(_, value)| value)),
                Expr::Exists(inner)
                | Expr::Collect(inner)
                | Expr::Scalar(inner)
                | Expr::Pick(_, inner) => {
                    self.query(inner)?;
                }
                Expr::Literal(_) | Expr::Undefined | Expr::Parameter(_) | Expr::Name(_) => {}
            }
        }
        Some(())
    }
}

impl<'de> Visitor<'de> for &Part {
    type Value = Map<String, Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a document")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut document: A) -> Result<Self::Value, A::Error> {
        let mut read = Map::new();
        while let Some(known) = document.next_key_seed(Known(self))? {
            match known {
                Some(name) => {
                    read.insert(name.to_owned(), document.next_value()?);
                }
                None => {
                    document.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(read)
    }
}

/// Recognizes the property names of a part.
struct Known<'p>(&'p Part);

impl<'p, 'de> DeserializeSeed<'de> for Known<'p> {
    type Value = Option<&'p str>;

    fn deserialize<D: Deserializer<'de>>(self, name: D) -> Result<Self::Value, D::Error> {
        name.deserialize_str(self)
    }
}

impl<'p> Visitor<'_> for Known<'p> {
    type Value = Option<&'p str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a property's name")
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        Ok(self.0.names.get(name).map(String::as_str))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::sql::parse;

    fn names(part: Option<Part>) -> Option<String> {
        part.map(|part| part.names.into_iter().collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn a_part_has_every_property_that_a_query_names() {
        for (text, query, filter) in [
            (
                "SELECT * FROM c WHERE c.a = 1 OR NOT c.b.x > 2",
                None,
                Some("a b"),
            ),
            (
                "SELECT VALUE COUNT(1) FROM c WHERE c.type = 'x'",
                Some("type"),
                Some("type"),
            ),
            (
                "SELECT c.id, c[\"b c\"] FROM c WHERE c.a IN (c.d, 2) ORDER BY c.e",
                Some("a b c d e id"),
                Some("a d"),
            ),
            ("SELECT c.a FROM c", Some("a"), None),
            (
                "SELECT VALUE SUM(c.n) FROM c GROUP BY c.g",
                Some("g n"),
                None,
            ),
            (
                "SELECT c.id FROM c JOIN t IN c.tags WHERE t.x = 1",
                Some("id tags"),
                None,
            ),
            (
                "SELECT c.id FROM c WHERE EXISTS (SELECT VALUE l FROM l IN c.lines WHERE l.a = c.b)",
                Some("b id lines"),
                Some("b lines"),
            ),
            (
                "SELECT c.id FROM c WHERE EXISTS (SELECT * FROM l IN c.lines)",
                None,
                None,
            ),
            ("SELECT VALUE c FROM c WHERE c.a LIKE 'x%'", None, Some("a")),
            (
                "SELECT VALUE [c.a, { b: c.b }, c.x ? 1 : c.y, c.s ?? c.t] FROM c",
                Some("a b s t x y"),
                None,
            ),
            ("SELECT c.id FROM c WHERE c[c.name] = 1", None, None),
            (
                "SELECT c.id FROM c WHERE ARRAY_LENGTH(ARRAY(SELECT VALUE c.z)) BETWEEN 1 AND -c.h",
                Some("h id z"),
                Some("h z"),
            ),
            (
                "SELECT VALUE r.a FROM (SELECT VALUE c FROM c) r WHERE r.a = 1",
                None,
                None,
            ),
        ] {
            let select = parse(text).unwrap();
            assert_eq!(names(Part::of_query(&select)).as_deref(), query, "{text}");
            assert_eq!(names(Part::of_filter(&select)).as_deref(), filter, "{text}");
        }
    }

    #[test]
    fn a_part_is_read_as_it_is_stored() {
        let document = json!({
            "a": { "b": [1, null] }, "n\u{1F600}\"": "\\\n", "other": "\"}", "z": 1.5, "list": [{ "a": 1 }],
        });
        let names = ["a", "n\u{1F600}\"", "z", "missing"].map(str::to_owned);
        let part = Part {
            names: names.into(),
        };
        let read = part.read(&document.to_string()).unwrap();
        assert_eq!(
            read,
            json!({ "a": { "b": [1, null] }, "n\u{1F600}\"": "\\\n", "z": 1.5 })
        );
    }
}
