//! The part of a query that a table of array elements answers: that some element of a document has a value.
//!
//! Three forms of a condition ask for one: `ARRAY_CONTAINS(c.tags, "a")`, `EXISTS (SELECT … FROM t IN c.tags WHERE t = "a")`,
//! and a filter on the name that `JOIN t IN c.tags` binds. It narrows which documents are looked at; which of them meet
//! the condition is judged on each.

use std::collections::HashMap;

use crate::store::SqlValue;
use serde_json::Value;

use super::condition::{Columns, Condition, comparison, constant};
use crate::index_use::conjuncts;
use crate::sql::ast::{Expr, Select, Source};
use crate::store::elements::is_element;
use crate::store::indexes::is_included;

/// A condition on the elements at a path.
#[derive(Debug)]
pub(crate) struct Elements {
    pub(crate) path: String,
    /// In terms of the table's columns.
    pub(crate) condition: String,
    pub(crate) parameters: Vec<SqlValue>,
}

impl Elements {
    /// The first one that a filter asks for and the policy indexes.
    pub(super) fn of(
        select: &Select,
        parameters: &HashMap<String, Value>,
        policy: &Value,
    ) -> Option<Self> {
        let mut found = None;
        conjuncts(select.filter.as_ref()?, &mut |expr| {
            if found.is_none() {
                let asked = asked(expr, select, parameters);
                found =
                    asked.filter(|this| is_element(&this.path) && is_included(policy, &this.path));
            }
        });
        found
    }

    fn new(array: &str, condition: Condition) -> Self {
        Self {
            path: format!("{array}/[]{}", condition.path()),
            condition: condition.text,
            parameters: condition.parameters,
        }
    }
}

fn asked(expr: &Expr, select: &Select, parameters: &HashMap<String, Value>) -> Option<Elements> {
    match expr {
        Expr::Call(function, arguments) if function.name == "ARRAY_CONTAINS" => {
            let [array, value] = &**arguments else {
                return None;
            };
            let value = constant(value, parameters)?;
            let equal = Condition::new(Columns::OfElement, String::new(), "=", value)?;
            Some(Elements::new(&array.path(&select.alias)?, equal))
        }
        Expr::Exists(inner) if inner.derived.is_none() => {
            let [join] = &*inner.joins else { return None };
            let Source::Elements(array) = &join.source else {
                return None;
            };
            let array = array.path(&select.alias)?;
            let mut found = None;
            conjuncts(inner.filter.as_ref()?, &mut |expr| {
                if found.is_none() {
                    found = comparison(Columns::OfElement, expr, &join.alias, parameters);
                }
            });
            Some(Elements::new(&array, found?))
        }
        _ => select.joins.iter().find_map(|join| {
            let Source::Elements(array) = &join.source else {
                return None;
            };
            let array = array.path(&select.alias)?;
            let condition = comparison(Columns::OfElement, expr, &join.alias, parameters)?;
            Some(Elements::new(&array, condition))
        }),
    }
}
