//! Aggregates within arrays and objects, the form of the service's query plans: theirs evaluates
//! them as columns only (`project_aggregated_row` of its evaluator).
//!
//! `SELECT [{"item": COUNT(1)}] AS items FROM c` becomes `SELECT COUNT(1) AS a0 FROM c`, and each
//! row gets its form back.

use serde_json::{Map, Value};

/// A projection with its expressions taken out.
#[derive(Debug, PartialEq)]
pub(crate) struct Aggregates {
    /// The query with a column per expression.
    pub(crate) sql: String,
    /// A row, with the name of a column in place of each expression.
    form: Map<String, Value>,
    /// The expression of each column.
    columns: Vec<String>,
}

impl Aggregates {
    /// Returns `None` for a query of another form.
    pub(crate) fn read(sql: &str) -> Option<Self> {
        let mut reader = Reader {
            rest: sql.strip_prefix("SELECT ")?,
            columns: Vec::new(),
        };
        if !reader.rest.starts_with('[') || !sql.contains("] AS items FROM ") {
            return None;
        }
        let mut form = Map::new();
        loop {
            let value = reader.value()?;
            reader.skip(" AS ")?;
            let end = reader.rest.find([' ', ','])?;
            let (name, rest) = reader.rest.split_at(end);
            form.insert(name.to_owned(), value);
            reader.rest = rest;
            if reader.skip(", ").is_none() {
                break;
            }
        }
        let columns = reader.columns.iter().enumerate();
        let columns: Vec<String> = columns.map(|(at, it)| format!("{it} AS a{at}")).collect();
        let sql = format!("SELECT {}{}", columns.join(", "), reader.rest);
        let columns = reader.columns.into_iter().map(str::to_owned).collect();
        Some(Self { sql, form, columns })
    }

    /// Gives a row its form back.
    pub(crate) fn row(&self, row: &Value) -> Value {
        let mut row = row.as_object().cloned().unwrap_or_default();
        for (at, expression) in self.columns.iter().enumerate() {
            // The sum of nothing is 0; theirs leaves it out.
            if expression.starts_with("SUM(") {
                row.entry(format!("a{at}")).or_insert(0.into());
            }
        }
        let form = Value::Object(self.form.clone());
        filled(&form, &row).unwrap_or_default()
    }
}

/// Returns `None` for an expression without a value.
fn filled(form: &Value, row: &Map<String, Value>) -> Option<Value> {
    match form {
        Value::String(column) => row.get(column).cloned(),
        Value::Array(items) => Some(items.iter().filter_map(|it| filled(it, row)).collect()),
        Value::Object(object) => {
            let pairs = object.iter();
            let pairs = pairs.filter_map(|(name, it)| Some((name.clone(), filled(it, row)?)));
            Some(Value::Object(pairs.collect()))
        }
        _ => None,
    }
}

struct Reader<'a> {
    rest: &'a str,
    columns: Vec<&'a str>,
}

impl Reader<'_> {
    fn skip(&mut self, text: &str) -> Option<()> {
        self.rest = self.rest.strip_prefix(text)?;
        Some(())
    }

    fn value(&mut self) -> Option<Value> {
        if self.skip("[").is_some() {
            let mut items = Vec::new();
            while self.skip("]").is_none() {
                items.push(self.value()?);
                let _last = self.skip(", ");
            }
            return Some(Value::Array(items));
        }
        if self.skip("{").is_some() {
            let mut object = Map::new();
            while self.skip("}").is_none() {
                self.skip("\"")?;
                let (name, rest) = self.rest.split_once("\": ")?;
                self.rest = rest;
                object.insert(name.to_owned(), self.value()?);
                let _last = self.skip(", ");
            }
            return Some(Value::Object(object));
        }
        let (expression, rest) = self.rest.split_at(end_of_expression(self.rest)?);
        self.rest = rest;
        self.columns.push(expression);
        Some(format!("a{}", self.columns.len() - 1).into())
    }
}

/// Returns the length of the expression that a text begins with, which stands in an object or array.
fn end_of_expression(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    let mut quote = None;
    for (at, character) in text.char_indices() {
        match (character, quote) {
            (_, Some(open)) => quote = quote.filter(|_| character != open),
            ('"' | '\'', None) => quote = Some(character),
            ('(' | '[' | '{', None) => depth += 1,
            (')' | ']' | '}', None) if depth > 0 => depth -= 1,
            (']' | '}' | ',', None) if depth == 0 => return Some(at),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::Aggregates;

    #[test]
    fn expressions_become_columns_and_rows_get_their_form_back() {
        let sql = concat!(
            r#"SELECT [{"item": c["g"]}] AS keys, [{"item": MAX(c["a"]["b"])}, "#,
            r#"{"item": {"sum": SUM(c["n"]), "count": COUNT(1)}}] AS items FROM c GROUP BY c["g"]"#
        );
        let read = Aggregates::read(sql).expect("it has aggregates");
        assert_eq!(
            read.sql,
            r#"SELECT c["g"] AS a0, MAX(c["a"]["b"]) AS a1, SUM(c["n"]) AS a2, COUNT(1) AS a3 FROM c GROUP BY c["g"]"#
        );
        assert_eq!(
            read.row(&json!({ "a0": "x", "a3": 2 })),
            json!({ "keys": [{ "item": "x" }], "items": [{}, { "item": { "sum": 0, "count": 2 } }] })
        );
    }
}
