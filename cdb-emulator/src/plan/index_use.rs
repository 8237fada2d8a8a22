//! The use of indexes by a query: the conditions that indexes answer, and the indexes that are
//! missing.
//!
//! An index answers a condition if the policy includes its path (index-policy), and a combination
//! if all its conditions are answered. A composite serves a sort by exactly its paths, and a filter
//! by exactly its paths with at most one range, the last. Other conditions are evaluated on loaded
//! documents, and charged accordingly.

use serde_json::{Value, json};

use crate::sql::Aggregate;
use crate::sql::ast::{Binary, Expr, Projection, Select, Source};
use crate::store::Policy;

/// The use of indexes by a query.
#[derive(Debug, Default)]
pub(crate) struct IndexUse {
    /// The number of conditions that indexes answer; a composite counts as one.
    pub(crate) lookups: usize,
    /// Whether indexes answer the whole query, so that no document is loaded: a count.
    pub(crate) covers: bool,
    /// Whether an index answers a condition on elements of a `JOIN`, so that documents without a
    /// match are not loaded.
    pub(crate) joined: bool,
    utilized: Vec<String>,
    potential: Vec<String>,
    utilized_composites: Vec<Vec<(String, bool)>>,
    potential_composites: Vec<Vec<(String, bool)>>,
}

/// A condition on a path.
struct PathCondition {
    path: String,
    equality: bool,
}

impl IndexUse {
    /// Analyzes a query under a policy.
    pub(crate) fn of(select: &Select, policy: &Policy) -> Self {
        let names = Names::of(select);
        let mut found = Vec::new();
        if let Some(filter) = &select.filter {
            conditions(filter, &names, &mut found);
        }
        let mut sort = Vec::new();
        for item in &select.order_by {
            let path = names.path(&item.expr);
            sort.extend(path.map(|path| (path, item.descending)));
        }
        let mut this = Self::default();
        this.singles(&found, &sort, policy);
        this.composites(&found, &sort, policy);
        let filter = select.filter.as_ref();
        let all_served = filter.is_none_or(|filter| is_answered(filter, &names, policy));
        this.covers = all_served && counts_only(select);
        this.joined = filter.is_some_and(|filter| {
            let mut joined = false;
            conjuncts(filter, &mut |expr| {
                joined |= is_answered(expr, &names, policy) && !is_served(expr, select, policy);
            });
            joined
        });
        this
    }

    fn singles(&mut self, found: &[PathCondition], sort: &[(String, bool)], policy: &Policy) {
        let filtered = found.iter().map(|condition| &condition.path);
        for path in filtered.chain(sort.iter().map(|(path, _)| path)) {
            let list = if policy.is_included(path) {
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

    fn composites(&mut self, found: &[PathCondition], sort: &[(String, bool)], policy: &Policy) {
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
        match policy.composite_of(&wanted, sort.len() > 1) {
            Some(composite) => {
                self.utilized_composites.push(composite.clone());
                self.lookups = 1;
            }
            None => self.potential_composites.push(wanted),
        }
    }

    /// Returns the header `x-ms-cosmos-index-utilization` before its encoding. Form: .NET client,
    /// `IndexUtilizationInfo`.
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

impl IndexUse {
    /// Returns the header of version 2 of the index metrics before its encoding. Form: .NET client,
    /// `IndexMetricsInfo`.
    pub(crate) fn to_json_v2(&self) -> Value {
        let lists = self.to_json();
        json!({
            "Utilized": {
                "SingleIndexes": lists["UtilizedSingleIndexes"],
                "CompositeIndexes": lists["UtilizedCompositeIndexes"],
            },
            "Potential": {
                "SingleIndexes": lists["PotentialSingleIndexes"],
                "CompositeIndexes": lists["PotentialCompositeIndexes"],
            },
        })
    }
}

/// The names of a query, each with its path in the document.
struct Names(Vec<(String, String)>);

impl Names {
    /// Returns the name of the document. A row of a query in `FROM` is not a document.
    fn of_document(select: &Select) -> Self {
        let document = (select.alias.clone(), String::new());
        Self(if select.derived.is_some() || select.alias.is_empty() {
            Vec::new()
        } else {
            vec![document]
        })
    }

    /// Returns all names of a query.
    fn of(select: &Select) -> Self {
        Self::of_document(select).with(select)
    }

    /// Adds the names that the joins of a query bind.
    fn with(&self, select: &Select) -> Self {
        let mut names = Self(self.0.clone());
        for join in &select.joins {
            let path = match &join.source {
                Source::Elements(of) => names.stored_path(of).map(|path| format!("{path}/[]")),
                Source::Value(of) => names.stored_path(of),
                Source::Rows(_) | Source::ElementsOfRows(_) => None,
            };
            names.0.extend(path.map(|path| (join.alias.clone(), path)));
        }
        names
    }

    fn stored_path(&self, expr: &Expr) -> Option<String> {
        let mut names = self.0.iter();
        names.find_map(|(name, base)| Some(format!("{base}{}", expr.path(name)?)))
    }

    /// Returns the path of an expression; `None` for the whole document.
    fn path(&self, expr: &Expr) -> Option<String> {
        self.stored_path(expr).filter(|path| !path.is_empty())
    }
}

/// Returns whether indexes answer a condition that depends on the document only, and not on joined
/// values.
pub(crate) fn is_served(expr: &Expr, select: &Select, policy: &Policy) -> bool {
    is_answered(expr, &Names::of_document(select), policy)
}

/// Visits the conjuncts of a condition.
pub(crate) fn conjuncts<'e>(expr: &'e Expr, visit: &mut impl FnMut(&'e Expr)) {
    if let Expr::Binary(left, Binary::And, right) = expr {
        conjuncts(left, visit);
        conjuncts(right, visit);
    } else {
        visit(expr);
    }
}

/// Returns whether indexes answer the whole condition.
fn is_answered(expr: &Expr, names: &Names, policy: &Policy) -> bool {
    match expr {
        Expr::Binary(left, Binary::And | Binary::Or, right) => {
            is_answered(left, names, policy) && is_answered(right, names, policy)
        }
        Expr::Unary(_, inner) => is_answered(inner, names, policy),
        Expr::Exists(inner) => exists_is_answered(inner, names, policy),
        _ => condition(expr, names).is_some_and(|found| policy.is_included(&found.path)),
    }
}

/// Returns whether indexes answer an `EXISTS` over an array.
fn exists_is_answered(inner: &Select, names: &Names, policy: &Policy) -> bool {
    let simple = inner.derived.is_none() && inner.group_by.is_empty() && !inner.aggregates();
    let [join] = &*inner.joins else { return false };
    let inside = names.with(inner);
    if let Some(filter) = &inner.filter {
        return simple && is_answered(filter, &inside, policy);
    }
    let path = inside.path(&Expr::Name(join.alias.clone()));
    simple && path.is_some_and(|path| policy.is_included(&path))
}

/// Returns the path of a condition, and whether it is an equality; `None` if no index answers it.
fn condition(expr: &Expr, names: &Names) -> Option<PathCondition> {
    let path = |expr: &Expr| names.path(expr);
    let range = |path| PathCondition {
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
            Some(PathCondition {
                path: found,
                equality: *operator == Binary::Equal,
            })
        }
        Expr::In(left, list) if list.iter().all(is_constant) => Some(range(path(left)?)),
        Expr::Between(left, low, high) if is_constant(low) && is_constant(high) => {
            Some(range(path(left)?))
        }
        Expr::Like(left, pattern, _) if is_constant(pattern) => Some(range(path(left)?)),
        Expr::Call(function, arguments) => {
            let (first, others) = arguments.split_first()?;
            let first = path(first).filter(|_| others.iter().all(is_constant))?;
            match function.name {
                "ARRAY_CONTAINS" => Some(range(format!("{first}/[]"))),
                // "Most system functions" use the index; of text, these (index-overview, string
                // functions).
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

/// Collects the conditions of a filter that an index could answer.
fn conditions(expr: &Expr, names: &Names, found: &mut Vec<PathCondition>) {
    match expr {
        Expr::Binary(left, Binary::And | Binary::Or, right) => {
            conditions(left, names, found);
            conditions(right, names, found);
        }
        Expr::Unary(_, inner) => conditions(inner, names, found),
        Expr::Exists(inner) => {
            if let Some(filter) = &inner.filter {
                conditions(filter, &names.with(inner), found);
            }
        }
        _ => found.extend(condition(expr, names)),
    }
}

/// Returns whether a query only counts documents.
pub(crate) fn counts_only(select: &Select) -> bool {
    let Projection::Value(value) = &select.projection else {
        return false;
    };
    select.joins.is_empty()
        && select.group_by.is_empty()
        && select.aggregates()
        && matches!(value, Expr::Aggregate(Aggregate::Count, of) if matches!(**of, Expr::Literal(_)))
}
