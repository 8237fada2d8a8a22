//! The order of rows, and how a scan resumes after a row.
//!
//! Each path of a sort is two keys in SQLite: the rank of the value's type in the service's order,
//! and the value. Mixed types are thus ordered as on the service, and an index on the same two keys
//! gives the order without a sort. The key of the document comes last, in the direction of the
//! scan.

use std::cmp::Reverse;

use crate::store::{PathKeys, Policy, SqlValue};
use serde::{Deserialize, Serialize};

use super::condition::Fixed;
use crate::sql::ast::Select;

/// One path of a sort.
#[derive(Clone, Debug, PartialEq)]
struct Term {
    by: PathKeys,
    descending: bool,
    /// Whether the filter restricts the values to one type.
    of_one_type: bool,
}

/// The order of a scan.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Order {
    terms: Vec<Term>,
    /// Whether the keys of documents descend.
    backwards: bool,
    /// The index with this order. SQLite has to be told, because it estimates that a filter leaves
    /// ten rows, which are cheap to sort.
    index: Option<String>,
}

/// A sort key of a row: the rank of the value's type, and the value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Key {
    place: i64,
    value: Bound,
}

/// A value of SQLite. Reals are stored as bits, because a decimal form may not round-trip.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Bound {
    None,
    Integer(i64),
    Real(u64),
    Text(String),
}

/// A range of a scan: keys, order, and a condition with its parameters.
#[derive(Debug, PartialEq)]
pub(crate) struct ScanRange {
    /// The expressions that the scan returns for each row, for [`Order::keys`].
    pub(crate) keys: Vec<String>,
    /// The name of the index.
    pub(crate) index: Option<String>,
    pub(crate) order: String,
    pub(crate) condition: String,
    pub(crate) parameters: Vec<SqlValue>,
}

impl Order {
    /// Returns the order of a query with a sort. A path that the filter fixes to one value is left
    /// out.
    pub(super) fn sorting(select: &Select, fixed: &[Fixed], policy: &Policy) -> Self {
        let sort = select.order_by.iter().filter_map(|item| {
            // All sorts are by paths; others were rejected before.
            Some((item.expr.path(&select.alias)?, item.descending))
        });
        let wanted = rest(sort.collect(), fixed);
        let serving = policy.indexes().iter().filter_map(|(index, name)| {
            let rest = rest(index.clone(), fixed);
            let turned = |(path, down): &(String, bool)| (path.clone(), !down);
            let backwards = rest.iter().map(turned).eq(wanted.iter().cloned());
            let serves = backwards || rest == wanted;
            serves.then(|| {
                (
                    restriction(index, fixed),
                    name,
                    backwards && !rest.is_empty(),
                )
            })
        });
        let best = serving.rev().max_by_key(|(restriction, ..)| *restriction);
        let (index, backwards) = match best.map(|(_, name, backwards)| (name, backwards)) {
            Some((name, backwards)) => (Some(name.clone()), backwards),
            None => (
                None,
                wanted.last().is_some_and(|(_, descending)| *descending),
            ),
        };
        Self {
            terms: terms(wanted, fixed, policy),
            backwards,
            index,
        }
    }

    /// Returns the order of the index that the filter restricts most; SQLite chooses if it restricts
    /// none.
    ///
    /// Of equally many restricted paths, those of another condition than the first one are taken:
    /// generated filters begin with the type of the document, which many documents share.
    pub(super) fn narrowing(fixed: &[Fixed], policy: &Policy) -> Self {
        let restricted = policy.indexes().iter().filter_map(|(index, name)| {
            let restriction = restriction(index, fixed)?;
            Some(((restriction, Reverse(index.len())), (index, name)))
        });
        let Some((_, (index, name))) = restricted.max_by_key(|(key, _)| *key) else {
            return Self::default();
        };
        Self {
            terms: terms(rest(index.clone(), fixed), fixed, policy),
            backwards: false,
            index: Some(name.clone()),
        }
    }

    /// Returns the order within one partition key. The primary key serves it, so SQLite chooses the
    /// index.
    pub(super) fn within_a_key(self, select: &Select) -> Self {
        if select.order_by.is_empty() {
            return Self::default();
        }
        Self {
            index: None,
            ..self
        }
    }

    /// Returns the sort keys of a row, from the expressions that the scan returned.
    pub(crate) fn keys(row: &[SqlValue]) -> Vec<Key> {
        let pairs = row.chunks_exact(2).map(|pair| Key {
            place: match pair[0] {
                SqlValue::Integer(place) => place,
                _ => 0,
            },
            value: Bound::of(&pair[1]),
        });
        pairs.collect()
    }

    /// Returns the range of all rows.
    pub(crate) fn all(&self) -> ScanRange {
        ScanRange {
            keys: self.columns(),
            index: self.index.clone(),
            order: self.text(false),
            condition: "1".to_owned(),
            parameters: Vec::new(),
        }
    }

    fn columns(&self) -> Vec<String> {
        let pairs = self
            .terms
            .iter()
            .flat_map(|term| [term.by.rank.clone(), term.by.value.clone()]);
        pairs.collect()
    }

    /// Returns the ranges after a row. If the first path of the sort can have several types there
    /// are two: the rest of the row's type, and the types after it.
    pub(crate) fn after(&self, keys: &[Key], pk: String, id: String) -> Vec<ScanRange> {
        let first = self.terms.first().zip(keys.first());
        let mut same = self.after_row(keys, pk, id);
        same.order = self.text(true);
        let Some((term, key)) = first else {
            return vec![same];
        };
        let (rank, sign) = (&term.by.rank, sign(term.descending));
        if let Some(value) = key.value.sql() {
            // SQLite needs a separate bound to start in the middle of an index.
            same.condition = format!("{} AND {} {sign}= ?", same.condition, term.by.value);
            same.parameters.push(value);
        }
        if term.of_one_type {
            return vec![same];
        }
        same.condition = format!("{} AND {rank} = {}", same.condition, key.place);
        let rest = ScanRange {
            condition: format!("{rank} {sign} {}", key.place),
            ..self.all()
        };
        vec![same, rest]
    }

    /// Returns the ORDER BY clause; `of_one_type` leaves out the type of the first path.
    fn text(&self, of_one_type: bool) -> String {
        let mut keys = Vec::new();
        for (at, term) in self.terms.iter().enumerate() {
            let direction = if term.descending { "DESC" } else { "ASC" };
            let known = term.of_one_type || (of_one_type && at == 0);
            if !known {
                keys.push(format!("{} {direction}", term.by.rank));
            }
            keys.push(format!("{} {direction}", term.by.value));
        }
        let direction = if self.backwards { "DESC" } else { "ASC" };
        keys.push(format!("pk {direction}, id {direction}"));
        keys.join(", ")
    }

    /// Builds the condition from the last key to the first: greater in this key, or equal and after
    /// the row in the other keys. A key without a value does not order values of its type.
    fn after_row(&self, keys: &[Key], pk: String, id: String) -> ScanRange {
        let sign_of_key = sign(self.backwards);
        let mut condition = format!("(pk, id) {sign_of_key} (?, ?)");
        let mut parameters = vec![SqlValue::Text(pk), SqlValue::Text(id)];
        for (term, key) in self.terms.iter().zip(keys).rev() {
            let sign = sign(term.descending);
            let rank = &term.by.rank;
            if let Some(bound) = key.value.sql() {
                let value = &term.by.value;
                condition = format!("({value} {sign} ? OR ({value} = ? AND {condition}))");
                parameters.splice(0..0, [bound.clone(), bound]);
            }
            if !term.of_one_type {
                let place = key.place;
                condition =
                    format!("({rank} {sign} {place} OR ({rank} = {place} AND {condition}))");
            }
        }
        ScanRange {
            keys: self.columns(),
            index: self.index.clone(),
            order: String::new(),
            condition,
            parameters,
        }
    }
}

/// How much a filter restricts an index; more is greater.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Restriction {
    /// The number of restricted leading paths.
    paths: usize,
    /// Whether another condition than the first one restricts it.
    beyond_first: bool,
    /// The number of paths with one value.
    equal: usize,
    /// The place of the last condition that restricts it.
    last: usize,
}

/// Returns how much the filter restricts an index; `None` if not at all.
fn restriction(index: &[(String, bool)], fixed: &[Fixed]) -> Option<Restriction> {
    let mut found = Restriction::default();
    for (path, _) in index {
        let Some(condition) = fixed.iter().find(|known| known.path == *path) else {
            break;
        };
        found.paths += 1;
        found.beyond_first |= condition.place > 0;
        found.equal += usize::from(condition.equal);
        found.last = condition.place;
        if !condition.equal {
            break;
        }
    }
    (found.paths > 0).then_some(found)
}

/// Removes the paths that the filter fixes to one value, and repeated paths.
fn rest(paths: Vec<(String, bool)>, fixed: &[Fixed]) -> Vec<(String, bool)> {
    let mut rest: Vec<(String, bool)> = Vec::new();
    for (path, descending) in paths {
        let equal = fixed.iter().any(|known| known.path == path && known.equal);
        let again = rest.iter().any(|(known, _)| *known == path);
        if !equal && !again {
            rest.push((path, descending));
        }
    }
    rest
}

fn terms(paths: Vec<(String, bool)>, fixed: &[Fixed], policy: &Policy) -> Vec<Term> {
    let terms = paths.into_iter().map(|(path, descending)| Term {
        of_one_type: fixed.iter().any(|known| known.path == path),
        by: policy.path_keys(path),
        descending,
    });
    terms.collect()
}

fn sign(descending: bool) -> &'static str {
    if descending { "<" } else { ">" }
}

impl Bound {
    fn of(value: &SqlValue) -> Self {
        match value {
            SqlValue::Integer(value) => Self::Integer(*value),
            SqlValue::Real(value) => Self::Real(value.to_bits()),
            SqlValue::Text(text) => Self::Text(text.clone()),
            SqlValue::Null | SqlValue::Blob(_) => Self::None,
        }
    }

    fn sql(&self) -> Option<SqlValue> {
        Some(match self {
            Self::None => return None,
            Self::Integer(value) => SqlValue::Integer(*value),
            Self::Real(bits) => SqlValue::Real(f64::from_bits(*bits)),
            Self::Text(text) => SqlValue::Text(text.clone()),
        })
    }
}
