//! What the indexes of a policy do for a query: which conditions they answer, and which index would have helped.
//!
//! A condition is served when its path is included (index-policy); a conjunction when one side is, which narrows it, a
//! disjunction when both are. A composite serves a sort by exactly its paths, and a filter by exactly its paths with
//! at most one range, the last. What is not served is judged on loaded documents, and charged so.

use serde_json::{Value, json};

use crate::sql::Aggregate;
use crate::sql::ast::{Binary, Expr, Projection, Select};
use crate::store::indexes::{composite_of, is_included};

/// How a query uses the indexes.
#[derive(Debug, Default)]
pub(crate) struct IndexUse {
    /// How many conditions indexes answer; a composite counts as one.
    pub(crate) lookups: usize,
    /// Whether indexes answer all of it, so that no document is loaded: a count of what they find.
    pub(crate) covers: bool,
    utilized: Vec<String>,
    potential: Vec<String>,
    utilized_composites: Vec<Vec<(String, bool)>>,
    potential_composites: Vec<Vec<(String, bool)>>,
}

/// A condition on a path.
struct Condition {
    path: String,
    equality: bool,
}

impl IndexUse {
    /// Looks at a query under a policy.
    pub(crate) fn of(select: &Select, policy: &Value) -> Self {
        let mut found = Vec::new();
        if let Some(filter) = &select.filter {
            conditions(filter, &select.alias, &mut found);
        }
        let mut sort = Vec::new();
        for item in &select.order_by {
            sort.extend(
                item.expr
                    .path(&select.alias)
                    .map(|path| (path, item.descending)),
            );
        }
        let mut this = Self::default();
        this.singles(&found, &sort, policy);
        this.composites(&found, &sort, policy);
        let filter = select.filter.as_ref();
        let all_served = filter.is_none_or(|filter| is_answered(filter, &select.alias, policy));
        this.covers = all_served && counts_only(select);
        this
    }

    fn singles(&mut self, found: &[Condition], sort: &[(String, bool)], policy: &Value) {
        let filtered = found.iter().map(|condition| &condition.path);
        for path in filtered.chain(sort.iter().map(|(path, _)| path)) {
            let list = if is_included(policy, path) {
                &mut self.utilized
            } else {
                &mut self.potential
            };
            if !list.contains(path) {
                list.push(path.clone());
            }
        }
        self.lookups = self.utilized.len();
    }

    fn composites(&mut self, found: &[Condition], sort: &[(String, bool)], policy: &Value) {
        let mut wanted: Vec<(String, bool)> = if sort.len() > 1 {
            sort.to_vec()
        } else {
            let equal = found.iter().filter(|condition| condition.equality);
            let ranges = found.iter().filter(|condition| !condition.equality);
            let paths = equal.chain(ranges.take(1));
            paths
                .map(|condition| (condition.path.clone(), false))
                .collect()
        };
        if let [(path, descending)] = sort
            && wanted.iter().all(|(wanted, _)| wanted != path)
        {
            wanted.push((path.clone(), *descending));
        }
        let mut seen = Vec::new();
        wanted.retain(|(path, _)| {
            let new = !seen.contains(path);
            seen.push(path.clone());
            new
        });
        if wanted.len() < 2 {
            return;
        }
        match composite_of(policy, &wanted, sort.len() > 1) {
            Some(composite) => {
                self.utilized_composites.push(composite);
                self.lookups = 1;
            }
            None => self.potential_composites.push(wanted),
        }
    }

    /// The header `x-ms-cosmos-index-utilization` before it is encoded. Shape: .NET client, `IndexUtilizationInfo`.
    pub(crate) fn to_json(&self) -> Value {
        let single = |path: &String| {
            json!({ "FilterExpression": "", "IndexSpec": format!("{path}/?"), "FilterPreciseSet": true,
                "IndexPreciseSet": true, "IndexImpactScore": "High" })
        };
        let composite = |paths: &Vec<(String, bool)>| {
            let specs = paths.iter().map(|(path, descending)| {
                let direction = if *descending { "DESC" } else { "ASC" };
                format!("{path} {direction}")
            });
            json!({ "IndexSpecs": specs.collect::<Vec<_>>(), "IndexPreciseSet": true, "IndexImpactScore": "High" })
        };
        let singles = |paths: &[String]| paths.iter().map(single).collect::<Vec<_>>();
        let composites =
            |lists: &[Vec<(String, bool)>]| lists.iter().map(composite).collect::<Vec<_>>();
        json!({
            "UtilizedSingleIndexes": singles(&self.utilized),
            "PotentialSingleIndexes": singles(&self.potential),
            "UtilizedCompositeIndexes": composites(&self.utilized_composites),
            "PotentialCompositeIndexes": composites(&self.potential_composites),
        })
    }
}

/// Whether an index narrows what meets a condition.
pub(crate) fn is_served(expr: &Expr, alias: &str, policy: &Value) -> bool {
    if let Expr::Binary(left, Binary::And, right) = expr {
        return is_served(left, alias, policy) || is_served(right, alias, policy);
    }
    is_answered(expr, alias, policy)
}

/// Whether indexes answer the whole of a condition.
fn is_answered(expr: &Expr, alias: &str, policy: &Value) -> bool {
    match expr {
        Expr::Binary(left, Binary::And | Binary::Or, right) => {
            is_answered(left, alias, policy) && is_answered(right, alias, policy)
        }
        Expr::Unary(_, inner) => is_answered(inner, alias, policy),
        _ => condition(expr, alias).is_some_and(|found| is_included(policy, &found.path)),
    }
}

/// The path that a condition is about, and whether it asks for one value. Nothing for what no index answers.
fn condition(expr: &Expr, alias: &str) -> Option<Condition> {
    let path = |expr: &Expr| expr.path(alias).filter(|path| !path.is_empty());
    let range = |path| Condition {
        path,
        equality: false,
    };
    match expr {
        Expr::Binary(left, operator, right) if is_comparison(*operator) => {
            let found = match (path(left), path(right)) {
                (Some(path), None) if is_constant(right) => path,
                (None, Some(path)) if is_constant(left) => path,
                _ => return None,
            };
            Some(Condition {
                path: found,
                equality: *operator == Binary::Equal,
            })
        }
        Expr::In(left, list) if list.iter().all(is_constant) => Some(range(path(left)?)),
        Expr::Between(left, low, high) if is_constant(low) && is_constant(high) => {
            Some(range(path(left)?))
        }
        Expr::Like(left, ..) => Some(range(path(left)?)),
        Expr::Call(function, arguments) => {
            let first = path(arguments.first()?)?;
            match function.name {
                "ARRAY_CONTAINS" => Some(range(format!("{first}/[]"))),
                // "Most system functions" use the index; of text, these (index-overview, string functions).
                "IS_DEFINED" | "STARTSWITH" | "CONTAINS" | "ENDSWITH" | "STRINGEQUALS"
                | "REGEXMATCH" | "IS_NULL" | "IS_STRING" | "IS_NUMBER" | "IS_BOOL" => {
                    Some(range(first))
                }
                _ => None,
            }
        }
        _ => None,
    }
}

fn is_comparison(operator: Binary) -> bool {
    matches!(
        operator,
        Binary::Equal
            | Binary::NotEqual
            | Binary::Less
            | Binary::LessOrEqual
            | Binary::Greater
            | Binary::GreaterOrEqual
    )
}

fn is_constant(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(_) | Expr::Parameter(_) => true,
        Expr::Unary(_, inner) => is_constant(inner),
        _ => false,
    }
}

/// All conditions of a filter that an index could answer.
fn conditions(expr: &Expr, alias: &str, found: &mut Vec<Condition>) {
    match expr {
        Expr::Binary(left, Binary::And | Binary::Or, right) => {
            conditions(left, alias, found);
            conditions(right, alias, found);
        }
        Expr::Unary(_, inner) => conditions(inner, alias, found),
        _ => found.extend(condition(expr, alias)),
    }
}

/// Whether a query says how many documents there are, and nothing of what is in them.
fn counts_only(select: &Select) -> bool {
    let Projection::Value(value) = &select.projection else {
        return false;
    };
    select.joins.is_empty()
        && select.group_by.is_empty()
        && select.aggregates()
        && matches!(value, Expr::Aggregate(Aggregate::Count, of) if matches!(**of, Expr::Literal(_)))
}
