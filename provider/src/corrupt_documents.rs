//! Documents that cannot be read: told of once, counted, and gone around.
//!
//! One of them costs its instance at most, never the poll or the sweep that finds it. What becomes of it is decided where
//! it is found: docs/hostile-data.md.

use std::collections::HashSet;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Mutex, PoisonError};

use cdb_model::{Container, Unreadable};
use metrics::counter;

use crate::documents::Durable;

/// How many documents are remembered as told of, before all are forgotten and told of again.
const REMEMBERED: usize = 4096;

/// What was told of.
#[derive(Debug, Default)]
pub(crate) struct CorruptDocuments {
    /// By hash: a document without a place is known by its text alone, and that may be megabytes.
    told: Mutex<HashSet<u64>>,
    hasher: RandomState,
}

impl CorruptDocuments {
    /// The rows that can be read.
    pub(crate) fn readable<T>(&self, rows: Vec<Result<T, Unreadable>>) -> Vec<T> {
        rows.into_iter()
            .filter_map(|row| row.map_err(|found| self.report(&found)).ok())
            .collect()
    }

    /// Says once that a document cannot be read.
    pub(crate) fn report(&self, found: &Unreadable) {
        let place = match &found.location {
            Some(location) => self
                .hasher
                .hash_one((location.partition_key.to_string(), &location.id)),
            None => self.hasher.hash_one(&found.json),
        };
        {
            // Valid between any two statements, so a panic elsewhere does not spoil it.
            let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
            if told.len() >= REMEMBERED {
                told.clear();
            }
            if !told.insert(place) {
                return;
            }
        }
        let document = kind(found);
        counter!("cdb.provider.documents.unreadable", "document" => document).increment(1);
        tracing::warn!(document, reason = %found, "a document cannot be read");
    }
}

/// The type of a document that cannot be read, among those that we know.
fn kind(found: &Unreadable) -> &'static str {
    let mut ours = Durable::DOCUMENTS.iter();
    ours.find(|shape| shape.discriminator == found.discriminator)
        .map_or("foreign", |shape| shape.discriminator)
}

/// Whether a document that cannot be read is of a type of ours: damaged, or of a newer version. Others belong to
/// somebody else, who shares the container.
pub(crate) fn is_ours(found: &Unreadable) -> bool {
    kind(found) != "foreign"
}
