//! In which order the store hands out rows, and how to go on behind one of them.
//!
//! Every path of a sort is two keys of the store: the place of the value's type in the service's order, and the value.
//! So mixed types come as in the service, and the indexes, which hold the same two, give the order without a sort. The
//! document's own key comes last, in the direction in which the index is walked.

use std::cmp::Reverse;

use crate::store::SqlValue;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::condition::Fixed;
use crate::sql::ast::Select;
use crate::store::indexes::{has_range_index, indexes};
use crate::store::{json_rank, json_value};

/// An index that a filter narrows.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) order: Order,
    /// The paths by which it is narrowed.
    pub(super) narrowed: Vec<String>,
}

/// One path of a sort.
#[derive(Clone, Debug, PartialEq)]
struct Term {
    path: String,
    descending: bool,
    /// Whether all rows have values of one type here, by the filter.
    of_one_type: bool,
}

/// The order of a scan.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Order {
    terms: Vec<Term>,
    /// Whether the documents' keys descend.
    backwards: bool,
    /// The index that has this order. It is named to the store, whose guess is that any filter leaves ten rows, which cost
    /// nothing to sort.
    index: Option<String>,
}

/// A value of a sort as the store has it: the place of its type, and what it compares by.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Key {
    place: i64,
    value: Bound,
}

/// A value of SQLite. Reals are kept by their bits, since a decimal form could come back as a neighbour.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Bound {
    None,
    Integer(i64),
    Real(u64),
    Text(String),
}

/// A part of a scan: keys, order, and a condition with its parameters.
#[derive(Debug, PartialEq)]
pub(crate) struct Stretch {
    /// What the store is to hand out of each row, for [`Order::keys`].
    pub(crate) keys: Vec<String>,
    /// The index to walk, by its name.
    pub(crate) index: Option<String>,
    pub(crate) order: String,
    pub(crate) condition: String,
    pub(crate) parameters: Vec<SqlValue>,
}

impl Order {
    /// The order that a query asks for. A path that a filter fixes to one value is left out: it orders nothing.
    pub(super) fn sorting(select: &Select, fixed: &[Fixed], policy: &Value) -> Self {
        let sort = select.order_by.iter().filter_map(|item| {
            // All sorts are by paths; another one is refused before it comes here.
            Some((item.expr.path(&select.alias)?, item.descending))
        });
        let wanted = rest(sort.collect(), fixed);
        let known = indexes(policy).map(|(index, name)| (rest(index, fixed), name));
        let mut serving = known.filter_map(|(index, name)| {
            let turned = |(path, down): &(String, bool)| (path.clone(), !down);
            let backwards = index.iter().map(turned).eq(wanted.iter().cloned());
            (backwards || index == wanted).then_some((name, backwards && !index.is_empty()))
        });
        let (index, backwards) = match serving.next() {
            Some((name, backwards)) => (Some(name), backwards),
            None => (
                None,
                wanted.last().is_some_and(|(_, descending)| *descending),
            ),
        };
        Self {
            terms: terms(wanted, fixed),
            backwards,
            index,
        }
    }

    /// The orders that a query which asks for none can have, so that its first row comes without a sort: those of the
    /// indexes that its filter narrows, first the one that it narrows most by what the filter says. Left out is an index
    /// that is narrowed by nothing but what narrows one before it too.
    pub(super) fn narrowing(fixed: &[Fixed], policy: &Value) -> Vec<Candidate> {
        let known = |path: &str| fixed.iter().find(|known| known.path == path);
        let narrowing = |index: &[(String, bool)]| {
            let equal = index
                .iter()
                .take_while(|(path, _)| known(path).is_some_and(|known| known.equal));
            let equal = equal.count();
            let range = index
                .get(equal)
                .is_some_and(|(path, _)| known(path).is_some());
            (equal, usize::from(range))
        };
        let mut all: Vec<_> = indexes(policy)
            .map(|(index, name)| (narrowing(&index), index, name))
            .filter(|((equal, range), ..)| equal + range > 0)
            .collect();
        // Of those that narrow alike the one that leaves the least to order by, the last one first.
        all.reverse();
        all.sort_by_key(|((equal, range), index, _)| (Reverse(equal * 2 + range), index.len()));
        let mut candidates: Vec<Candidate> = Vec::new();
        for ((equal, range), index, name) in all {
            let paths = index.iter().take(equal + range);
            let narrowed: Vec<String> = paths.map(|(path, _)| path.clone()).collect();
            let covers =
                |other: &Candidate| narrowed.iter().all(|path| other.narrowed.contains(path));
            if candidates.iter().any(covers) {
                continue;
            }
            let order = Self {
                terms: terms(rest(index, fixed), fixed),
                backwards: false,
                index: Some(name),
            };
            candidates.push(Candidate { order, narrowed });
        }
        candidates
    }

    /// The same order for the rows of one partition key, which has an index of its own: the store chooses.
    pub(super) fn within_a_key(self, select: &Select) -> Self {
        if select.order_by.is_empty() {
            return Self::default();
        }
        Self {
            index: None,
            ..self
        }
    }

    /// Whether an index gives the order.
    pub(crate) fn has_index(&self) -> bool {
        self.index.is_some()
    }

    /// The index that gives the order.
    pub(crate) fn index(&self) -> Option<&String> {
        self.index.as_ref()
    }

    /// The same order by a sort of what the index of another order finds.
    pub(super) fn by_a_sort(self, other: &Self) -> Self {
        Self {
            index: other.index.clone(),
            ..self
        }
    }

    /// The keys of a row, to go on behind it, from what the store has handed out.
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

    /// All rows.
    pub(crate) fn whole(&self) -> Stretch {
        Stretch {
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
            .flat_map(|term| [json_rank(&term.path), json_value(&term.path)]);
        pairs.collect()
    }

    /// The rows behind a document, in two stretches where the first path of the sort has several types: those of the type
    /// that the document has, which its value narrows, and those of the types behind it.
    pub(crate) fn behind(&self, keys: &[Key], pk: String, id: String) -> Vec<Stretch> {
        let first = self.terms.first().zip(keys.first());
        let mut same = self.after(keys, pk, id);
        same.order = self.text(true);
        let Some((term, key)) = first else {
            return vec![same];
        };
        let (rank, sign) = (json_rank(&term.path), sign(term.descending));
        if let Some(value) = key.value.sql() {
            // Only a bound by itself lets the store begin in the middle of an index.
            same.condition = format!(
                "{} AND {} {sign}= ?",
                same.condition,
                json_value(&term.path)
            );
            same.parameters.push(value);
        }
        if term.of_one_type {
            return vec![same];
        }
        same.condition = format!("{} AND {rank} = {}", same.condition, key.place);
        let rest = Stretch {
            condition: format!("{rank} {sign} {}", key.place),
            ..self.whole()
        };
        vec![same, rest]
    }

    /// The sort; without the first path's type where that is one.
    fn text(&self, of_one_type: bool) -> String {
        let mut keys = Vec::new();
        for (at, term) in self.terms.iter().enumerate() {
            let direction = if term.descending { "DESC" } else { "ASC" };
            let known = term.of_one_type || (of_one_type && at == 0);
            if !known {
                keys.push(format!("{} {direction}", json_rank(&term.path)));
            }
            keys.push(format!("{} {direction}", json_value(&term.path)));
        }
        let direction = if self.backwards { "DESC" } else { "ASC" };
        keys.push(format!("pk {direction}, id {direction}"));
        keys.join(", ")
    }

    /// Key by key from the last to the first: behind it, or equal and behind in the rest. A key without a value orders
    /// nothing among those of its type.
    fn after(&self, keys: &[Key], pk: String, id: String) -> Stretch {
        let sign_of_key = sign(self.backwards);
        let mut condition = format!("(pk, id) {sign_of_key} (?, ?)");
        let mut parameters = vec![SqlValue::Text(pk), SqlValue::Text(id)];
        for (term, key) in self.terms.iter().zip(keys).rev() {
            let sign = sign(term.descending);
            let rank = json_rank(&term.path);
            if let Some(bound) = key.value.sql() {
                let value = json_value(&term.path);
                condition = format!("({value} {sign} ? OR ({value} = ? AND {condition}))");
                parameters.splice(0..0, [bound.clone(), bound]);
            }
            if !term.of_one_type {
                let place = key.place;
                condition =
                    format!("({rank} {sign} {place} OR ({rank} = {place} AND {condition}))");
            }
        }
        Stretch {
            keys: self.columns(),
            index: self.index.clone(),
            order: String::new(),
            condition,
            parameters,
        }
    }
}

/// What of a list of paths is left to order by where a filter fixes some to one value.
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

fn terms(paths: Vec<(String, bool)>, fixed: &[Fixed]) -> Vec<Term> {
    let terms = paths.into_iter().map(|(path, descending)| Term {
        of_one_type: fixed.iter().any(|known| known.path == path),
        path,
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

/// Whether a sort by one path leaves out documents without it: only a path that the policy names itself has an entry for
/// what is missing (<https://learn.microsoft.com/azure/cosmos-db/nosql/query/order-by>, remarks).
pub(super) fn leaves_out_missing(select: &Select, policy: &Value) -> Option<String> {
    let [item] = &*select.order_by else {
        return None;
    };
    let path = item.expr.path(&select.alias)?;
    let system = matches!(&*path, "/id" | "/_ts");
    (!system && !has_range_index(policy, &path)).then_some(path)
}
