//! Rows of a query, and their order across physical partitions.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::HashMap;

use cdb_model::query::compare_values;
use cdb_model::query::statement::{RowForm, SortKey};
use cdb_model::shape::Direction;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::error::{Error, Result};

/// A row with its sort keys.
#[derive(Clone, Debug)]
pub(super) struct Row {
    keys: Vec<Option<Value>>,
    /// The argument of the query's `read_row`.
    pub json: Box<RawValue>,
}

/// Reads the rows of one answer.
#[derive(Clone, Debug)]
pub(super) struct RowReader {
    pub form: RowForm,
    pub order: Vec<SortKey>,
    /// Whether rows of several sources are compared. Sort keys are read from documents only then.
    pub merging: bool,
}

#[derive(Deserialize)]
struct Page<'a> {
    #[serde(borrow, rename = "Documents")]
    rows: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
struct ValueWithKeys {
    value: Option<Box<RawValue>>,
    #[serde(default)]
    keys: Vec<Key>,
}

#[derive(Deserialize)]
struct Key {
    #[serde(default, deserialize_with = "defined")]
    item: Option<Value>,
}

/// Reads a key that is there, which may be null.
fn defined<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

impl RowReader {
    /// Reads the rows of an answer.
    ///
    /// # Errors
    /// When the answer does not have the form of the statement.
    pub(super) fn read(&self, body: &str) -> Result<Vec<Row>> {
        let page: Page<'_> = serde_json::from_str(body).map_err(unreadable)?;
        page.rows.into_iter().map(|row| self.row(row)).collect()
    }

    fn row(&self, raw: &RawValue) -> Result<Row> {
        match &self.form {
            RowForm::Document => Ok(Row {
                keys: if self.merging {
                    self.document_keys(raw)?
                } else {
                    Vec::new()
                },
                json: raw.to_owned(),
            }),
            RowForm::Aggregates { .. } => Ok(Row {
                keys: Vec::new(),
                json: raw.to_owned(),
            }),
            RowForm::ValueWithKeys => {
                let row: ValueWithKeys = serde_json::from_str(raw.get()).map_err(unreadable)?;
                Ok(Row {
                    keys: row.keys.into_iter().map(|key| key.item).collect(),
                    json: row.value.unwrap_or_else(|| RawValue::NULL.to_owned()),
                })
            }
        }
    }

    /// Reads the sort keys of a document, without parsing its other properties.
    fn document_keys(&self, raw: &RawValue) -> Result<Vec<Option<Value>>> {
        if self.order.is_empty() {
            return Ok(Vec::new());
        }
        let fields: HashMap<Cow<'_, str>, &RawValue> =
            serde_json::from_str(raw.get()).map_err(unreadable)?;
        self.order
            .iter()
            .map(|key| {
                let path = key.pointer.trim_start_matches('/');
                let (first, rest) = path.split_at(path.find('/').unwrap_or(path.len()));
                let name = first.replace("~1", "/").replace("~0", "~");
                let Some(field) = fields.get(name.as_str()) else {
                    return Ok(None);
                };
                let value: Value = serde_json::from_str(field.get()).map_err(unreadable)?;
                Ok(value.pointer(rest).cloned())
            })
            .collect()
    }

    /// Compares two rows by the order of the query.
    pub(super) fn compare(&self, a: &Row, b: &Row) -> Ordering {
        let keys = a.keys.iter().zip(&b.keys);
        self.order
            .iter()
            .zip(keys)
            .map(|(key, (a, b))| {
                let ascending = compare_values(a.as_ref(), b.as_ref());
                match key.direction {
                    Direction::Ascending => ascending,
                    Direction::Descending => ascending.reverse(),
                }
            })
            .find(|ordering| ordering.is_ne())
            .unwrap_or(Ordering::Equal)
    }
}

fn unreadable(error: serde_json::Error) -> Error {
    Error::protocol(format!("answer to a query cannot be parsed: {error}")).with_source(error)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn reader(form: RowForm, order: &[(&str, Direction)]) -> RowReader {
        RowReader {
            form,
            order: order
                .iter()
                .map(|&(pointer, direction)| SortKey {
                    pointer: pointer.to_owned(),
                    direction,
                })
                .collect(),
            merging: true,
        }
    }

    fn page(rows: &Value) -> String {
        json!({"_rid": "x", "Documents": rows, "_count": 1}).to_string()
    }

    #[test]
    fn rows_are_ordered_by_keys_in_documents_and_by_direction() {
        let reader = reader(
            RowForm::Document,
            &[
                ("/a/b", Direction::Descending),
                ("/c~1d", Direction::Ascending),
            ],
        );
        let rows = reader
            .read(&page(&json!([
                {"a": {"b": 1}, "c/d": "x"},
                {"a": {"b": 2}, "c/d": "y"},
                {"a": {"b": 2}, "c/d": "x"},
                {"c/d": "x"},
            ])))
            .unwrap();
        let mut order = [0, 1, 2, 3];
        order.sort_by(|&a, &b| reader.compare(&rows[a], &rows[b]));
        assert_eq!(order, [2, 1, 0, 3]);
    }

    #[test]
    fn projected_values_are_ordered_by_their_keys() {
        let order = [("/a", Direction::Ascending), ("/b", Direction::Descending)];
        let reader = reader(RowForm::ValueWithKeys, &order);
        let rows = reader
            .read(&page(&json!([
                {"value": "x", "keys": [{"item": null}, {"item": 2}]},
                {"keys": [{}, {"item": 1}]},
                {"value": "y", "keys": [{}, {"item": 2}]},
            ])))
            .unwrap();
        assert_eq!(rows[0].json.get(), "\"x\"");
        assert_eq!(rows[1].json.get(), "null");
        let mut order = [0, 1, 2];
        order.sort_by(|&a, &b| reader.compare(&rows[a], &rows[b]));
        assert_eq!(order, [2, 1, 0], "an undefined key precedes null");
    }

    #[test]
    fn an_answer_of_another_form_is_an_error() {
        let error = reader(RowForm::Document, &[]).read("[]").unwrap_err();
        assert_eq!(error.kind(), crate::ErrorKind::Protocol);
    }
}
