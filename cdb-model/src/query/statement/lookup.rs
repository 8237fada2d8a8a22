//! Queries for documents by their keys.

use std::collections::BTreeSet;

use serde_json::Value;

use super::fetch::{Fetch, RowForm, Scope, Statement};
use crate::container::Container;
use crate::document::DecodeError;
use crate::limits::{MAX_KEYS_PER_QUERY, MAX_QUERY_BYTES, MAX_REQUEST_BYTES};
use crate::sql::{self, Predicate, Projection, QueryParts, ValueError};
use crate::value::{ItemId, PartitionKey};

/// A query for documents by id and partition key, as JSON with the properties of the service. Its
/// rows have no order, and missing documents have no row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyLookup {
    /// Without repetition, in the order of the partitions.
    keys: Vec<(PartitionKey, ItemId)>,
}

impl KeyLookup {
    /// Divides keys into as few queries as the limits on keys, text and request allow. Repeated
    /// keys count once.
    pub fn divide<C: Container>(
        keys: impl IntoIterator<Item = (PartitionKey, ItemId)>,
    ) -> Vec<Self> {
        let mut queries = Vec::new();
        let (mut current, mut used) = (Self { keys: Vec::new() }, Size::default());
        for key in keys.into_iter().collect::<BTreeSet<_>>() {
            let size = Size::of::<C>(&key.0, &key.1);
            if !current.keys.is_empty() && !used.plus(size).fits(current.keys.len() + 1) {
                queries.push(std::mem::replace(&mut current, Self { keys: Vec::new() }));
                used = Size::default();
            }
            used = used.plus(size);
            current.keys.push(key);
        }
        if !current.keys.is_empty() {
            queries.push(current);
        }
        queries
    }

    /// Returns the keys, without repetition.
    pub fn keys(&self) -> &[(PartitionKey, ItemId)] {
        &self.keys
    }

    /// Returns the logical partition, if there is only one.
    fn partition(&self) -> Option<&PartitionKey> {
        let (first, _) = self.keys.first()?;
        let (last, _) = self.keys.last()?;
        (first == last).then_some(first)
    }

    fn predicate<C: Container>(&self) -> Predicate {
        let partitions = self.keys.chunk_by(|(a, _), (b, _)| a == b);
        let partitions = partitions.filter_map(|keys| {
            let (partition, _) = keys.first()?;
            let ids = keys.iter().map(|(_, id)| Value::from(id.as_str()));
            let ids = Predicate::In("/id".to_owned(), ids.collect());
            let mut all: Vec<_> = partition.conditions(C::PARTITION_KEY).collect();
            all.push(ids);
            Some(Predicate::And(all))
        });
        Predicate::Or(partitions.collect())
    }
}

/// The most that a key adds to a query, in bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Size {
    text: usize,
    parameters: usize,
}

impl Size {
    fn of<C: Container>(partition: &PartitionKey, id: &ItemId) -> Self {
        // `{"name":"@p1999","value":…},`, and a condition per level with `c[""]`, `@p1999`, `AND`.
        const PARAMETER: usize = 32;
        const CONDITION: usize = 32;
        let json = |text: &str| serde_json::to_string(text).map_or(0, |json| json.len());
        let levels = C::PARTITION_KEY.iter();
        Self {
            text: levels.map(|path| 2 * path.len() + CONDITION).sum::<usize>() + 2 * CONDITION,
            parameters: json(id.as_str())
                + partition.to_header().len()
                + PARAMETER * (1 + partition.values().len()),
        }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            text: self.text + other.text,
            parameters: self.parameters + other.parameters,
        }
    }

    fn fits(self, keys: usize) -> bool {
        keys <= MAX_KEYS_PER_QUERY
            && self.text <= MAX_QUERY_BYTES
            && self.text + self.parameters <= MAX_REQUEST_BYTES
    }
}

impl<C: Container> Fetch<C> for KeyLookup {
    type Row = String;

    fn statement(&self) -> Result<Statement, ValueError> {
        let (sql, parameters) = sql::query(&QueryParts {
            projection: &Projection::Document,
            joins: None,
            predicate: &self.predicate::<C>(),
            order: &[],
            top: None,
            discriminator: C::DISCRIMINATOR,
        })?;
        Ok(Statement {
            sql,
            parameters,
            scope: match self.partition() {
                Some(partition) => Scope::Partition(partition.clone()),
                None => Scope::AllPartitions,
            },
            order: Vec::new(),
            top: None,
            form: RowForm::Document,
        })
    }

    fn read_row(&self, json: &str) -> Result<String, DecodeError> {
        Ok(json.to_owned())
    }
}
