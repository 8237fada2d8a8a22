//! Explains which indexes serve a query by the service's rules, and which conditions are checked
//! per document.
//!
//! The rules (indexing policy overview): equality, range, `IN`, `STARTSWITH`, `IS_DEFINED` and
//! `ARRAY_CONTAINS` on a path use its range index. `CONTAINS`, `ENDSWITH` and comparisons that
//! ignore case scan that index: they read many or all of its values, but load only the documents
//! that match (index overview, "index usage"). Conditions on words use the full-text index. A composite serves a filter only when all of its
//! paths are filtered, equalities first and at most one range, last. A sort by one path needs the
//! index of that path. A sort by several paths needs a composite with exactly these paths, in these
//! directions or all reversed. No index serves negations.

use std::fmt;

use crate::container::Container;
use crate::policy::{CompositeIndexPath, IndexingPolicy, policy_path};
use crate::query::statement::{Fetch, Scope};
use crate::query::{QueriedIn, Query};
use crate::shape::Direction;
use crate::sql::{Comparison, Fragment, IndexUse, OrderTerm, Predicate, TextMatch, readable};

/// The indexes that serve a query.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Explanation {
    /// The condition, as text.
    pub condition: String,
    /// Whether the query reads one logical partition, or those of a prefix.
    pub one_partition: bool,
    /// Range indexes that serve conditions or the sort, as policy paths.
    pub range_indexes: Vec<String>,
    /// Range indexes whose values are scanned, as policy paths. The charge grows with the number of
    /// different values; only documents that match are loaded.
    pub scanned_indexes: Vec<String>,
    /// Composite indexes that serve conditions or the sort, as lists of policy paths.
    pub composite_indexes: Vec<String>,
    /// Full-text indexes that serve conditions, as policy paths.
    pub full_text_indexes: Vec<String>,
    /// Conditions that no index serves. The service checks them per document.
    pub leftover: Vec<String>,
    /// Sorts that no index serves. The service refuses the query.
    pub refused: Vec<String>,
}

impl Explanation {
    /// Whether indexes serve every condition and the sort.
    pub fn is_narrowed(&self) -> bool {
        self.is_served() && self.leftover.is_empty()
    }

    /// Whether an index or the partition key narrows the search, and the sort has its index.
    pub fn is_served(&self) -> bool {
        self.refused.is_empty()
            && (self.one_partition
                || !self.range_indexes.is_empty()
                || !self.scanned_indexes.is_empty()
                || !self.full_text_indexes.is_empty()
                || !self.composite_indexes.is_empty())
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = match (self.refused.is_empty(), self.is_served()) {
            (false, _) => "refused by the service",
            (true, true) => "served by an index",
            (true, false) => "scans every document",
        };
        writeln!(f, "{verdict}: {}", self.condition)?;
        if self.one_partition {
            writeln!(f, "  within one partition")?;
        }
        for (label, entries) in [
            ("range index", &self.range_indexes),
            ("scan of the range index", &self.scanned_indexes),
            ("composite index", &self.composite_indexes),
            ("full-text index", &self.full_text_indexes),
            ("checked per document", &self.leftover),
            ("no index for the sort by", &self.refused),
        ] {
            for entry in entries {
                writeln!(f, "  {label} {entry}")?;
            }
        }
        Ok(())
    }
}

/// A query that can be explained before it is sent.
pub trait Explain<C: Container>: Fetch<C> {
    /// Returns which indexes of a policy serve this query.
    ///
    /// ```
    /// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
    /// use cdb_model::{Container, Query};
    /// use cdb_model::query::Explain as _;
    /// use shop::{Order, Shop};
    ///
    /// let large = Query::across_partitions().filter(Order::TOTAL_CENTS.gt(500));
    /// let mut policy = Shop::definition().indexing_policy;
    /// assert!(large.explain(&policy).is_narrowed());
    /// policy.included_paths.clear();
    /// assert!(!large.explain(&policy).is_served());
    /// ```
    fn explain(&self, policy: &IndexingPolicy) -> Explanation;
}

impl<C: Container, T: QueriedIn<C>> Explain<C> for Query<T> {
    fn explain(&self, policy: &IndexingPolicy) -> Explanation {
        explain(
            &self.condition(),
            &self.parts.order,
            !matches!(self.parts.scope, Scope::AllPartitions),
            policy,
            C::DISCRIMINATOR,
        )
    }
}

/// Returns which indexes of a policy serve a condition and a sort.
pub(super) fn explain(
    predicate: &Predicate,
    order: &[OrderTerm],
    one_partition: bool,
    policy: &IndexingPolicy,
    discriminator: &str,
) -> Explanation {
    let mut explainer = Explainer {
        policy,
        discriminator,
        equalities: Vec::new(),
        ranges: Vec::new(),
        found: Explanation {
            condition: readable(predicate, discriminator),
            one_partition,
            range_indexes: Vec::new(),
            scanned_indexes: Vec::new(),
            composite_indexes: Vec::new(),
            full_text_indexes: Vec::new(),
            leftover: Vec::new(),
            refused: Vec::new(),
        },
    };
    explainer.predicate(predicate);
    explainer.composites_for_filters();
    explainer.sort(order);
    explainer.found
}

struct Explainer<'a> {
    policy: &'a IndexingPolicy,
    discriminator: &'a str,
    equalities: Vec<String>,
    ranges: Vec<String>,
    found: Explanation,
}

impl Explainer<'_> {
    fn is_indexed(&self, path: &str) -> bool {
        self.policy.covers(path) || self.policy.covers(&format!("{path}/[]"))
    }

    /// Notes a condition on one path; whether an index serves it.
    fn on_path(&mut self, pointer: &str, equality: bool) -> bool {
        let path = policy_path(pointer);
        if !self.is_indexed(&path) {
            return false;
        }
        add(&mut self.found.range_indexes, path.clone());
        if equality {
            self.equalities.push(path);
        } else {
            self.ranges.push(path);
        }
        true
    }

    /// Notes a condition on the values of one path; whether an index has them.
    fn scans(&mut self, pointer: &str) -> bool {
        let path = policy_path(pointer);
        let indexed = self.is_indexed(&path);
        if indexed {
            add(&mut self.found.scanned_indexes, path);
        }
        indexed
    }

    /// Notes a condition of `sql!`; whether an index serves each of its paths.
    fn on_paths(&mut self, condition: &Fragment, used: IndexUse) -> bool {
        let mut paths = condition.paths();
        match used {
            IndexUse::Equality => paths.all(|path| self.on_path(path, true)),
            IndexUse::Range => paths.all(|path| self.on_path(path, false)),
            IndexUse::Scan => paths.all(|path| self.scans(path)),
            IndexUse::Unserved => false,
        }
    }

    /// Notes a condition on words; whether a full-text index has them.
    fn has_words(&mut self, pointer: &str) -> bool {
        let path = policy_path(pointer);
        let mut indexes = self.policy.full_text_indexes.iter();
        let is_served = indexes.any(|index| index.path == path);
        if is_served {
            add(&mut self.found.full_text_indexes, path);
        }
        is_served
    }

    fn predicate(&mut self, predicate: &Predicate) {
        let served = match predicate {
            Predicate::All | Predicate::Never => true,
            Predicate::And(parts) => {
                for part in parts {
                    self.predicate(part);
                }
                true
            }
            Predicate::IsType(_) => {
                let path = format!("/{}", self.discriminator);
                self.on_path(&path, true)
            }
            Predicate::Compare(path, Comparison::Equal, _)
            | Predicate::Text(path, TextMatch::Equals, _, false) => self.on_path(path, true),
            Predicate::Compare(_, Comparison::NotEqual, _)
            | Predicate::Not(_)
            | Predicate::Invalid(_) => false,
            Predicate::Compare(path, _, _)
            | Predicate::In(path, _)
            | Predicate::IsNull(path)
            | Predicate::IsDefined(path)
            | Predicate::Text(path, TextMatch::StartsWith, _, false)
            | Predicate::ArrayContains(path, _) => self.on_path(path, false),
            Predicate::Text(path, ..) => self.scans(path),
            Predicate::FullText(path, ..) => self.has_words(path),
            Predicate::Sql(condition, used) => self.on_paths(condition, *used),
            Predicate::Or(parts) => self.alternatives(parts),
            Predicate::Partial(inner, _) => {
                self.predicate(inner);
                true
            }
        };
        if !served {
            self.found
                .leftover
                .push(readable(predicate, self.discriminator));
        }
    }

    /// Explains an `OR`, which is served if an index serves each of its parts. Composites do not
    /// count.
    fn alternatives(&mut self, parts: &[Predicate]) -> bool {
        let (mut paths, mut scanned, mut texts) = (Vec::new(), Vec::new(), Vec::new());
        for part in parts {
            let mut inner = Explainer {
                policy: self.policy,
                discriminator: self.discriminator,
                equalities: Vec::new(),
                ranges: Vec::new(),
                found: Explanation {
                    range_indexes: Vec::new(),
                    scanned_indexes: Vec::new(),
                    composite_indexes: Vec::new(),
                    full_text_indexes: Vec::new(),
                    leftover: Vec::new(),
                    refused: Vec::new(),
                    ..self.found.clone()
                },
            };
            inner.predicate(part);
            let found = inner.found;
            if [
                &found.range_indexes,
                &found.scanned_indexes,
                &found.full_text_indexes,
            ]
            .iter()
            .all(|indexes| indexes.is_empty())
            {
                return false;
            }
            paths.extend(found.range_indexes);
            scanned.extend(found.scanned_indexes);
            texts.extend(found.full_text_indexes);
        }
        for path in paths {
            add(&mut self.found.range_indexes, path);
        }
        for path in scanned {
            add(&mut self.found.scanned_indexes, path);
        }
        for path in texts {
            add(&mut self.found.full_text_indexes, path);
        }
        true
    }

    fn composites_for_filters(&mut self) {
        for index in &self.policy.composite_indexes {
            let served = index.iter().enumerate().all(|(at, path)| {
                self.equalities.contains(&path.path)
                    || (at + 1 == index.len() && self.ranges.contains(&path.path))
            });
            if served {
                let paths: Vec<_> = index.iter().map(|path| path.path.clone()).collect();
                self.found.composite_indexes.push(paths.join(", "));
            }
        }
    }

    fn sort(&mut self, order: &[OrderTerm]) {
        let wanted: Vec<(String, Direction)> = order
            .iter()
            .map(|term| {
                let pointer = term.target.pointer(self.discriminator);
                (policy_path(&pointer), term.direction)
            })
            .collect();
        let names = || {
            wanted
                .iter()
                .map(|(path, _)| path.clone())
                .collect::<Vec<_>>()
                .join(", ")
        };
        match &*wanted {
            [] => {}
            [(path, _)] if self.is_indexed(path) => {
                add(&mut self.found.range_indexes, path.clone());
            }
            [_] => self.found.refused.push(names()),
            several => {
                if !self.has_composite(several, |direction| direction)
                    && !self.has_composite(several, Direction::reversed)
                {
                    self.found.refused.push(names());
                } else if !self.found.composite_indexes.contains(&names()) {
                    self.found.composite_indexes.push(names());
                }
            }
        }
    }

    /// Whether a composite index has exactly these paths, with `turn` applied to every direction.
    fn has_composite(
        &self,
        wanted: &[(String, Direction)],
        turn: fn(Direction) -> Direction,
    ) -> bool {
        let fits = |index: &[CompositeIndexPath]| {
            let mut pairs = index.iter().zip(wanted);
            index.len() == wanted.len()
                && pairs.all(|(path, (name, direction))| {
                    path.path == *name && path.order == turn(*direction)
                })
        };
        self.policy
            .composite_indexes
            .iter()
            .any(|index| fits(index))
    }
}

fn add(paths: &mut Vec<String>, path: String) {
    if !paths.contains(&path) {
        paths.push(path);
    }
}
