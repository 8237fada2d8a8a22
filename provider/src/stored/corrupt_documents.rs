//! Documents that cannot be decoded: each is reported once, counted and skipped.
//!
//! Such a document affects its instance at most, never the poll or the sweep that finds it. The
//! reader of the document decides its handling: docs/reliability.md.

use std::collections::HashSet;
use std::hash::{BuildHasher as _, RandomState};

use cdb_model::stored::Unreadable;
use cdb_model::{Container, Stored};
use metrics::counter;
use parking_lot::Mutex;

use super::documents::{Durable, Partial};

/// The number of reported documents that are remembered. Beyond it the set is cleared, and
/// documents are reported again.
const MAX_REPORTED: usize = 4096;

/// The documents that were reported.
#[derive(Debug, Default)]
pub(crate) struct CorruptDocuments {
    /// Hashes of the locations. A document without a location is identified by its text, which may
    /// be megabytes.
    reported: Mutex<HashSet<u64>>,
    hasher: RandomState,
}

impl CorruptDocuments {
    /// Returns the rows that can be decoded and reports the others.
    pub(crate) fn readable<T>(&self, rows: Vec<Result<T, Unreadable>>) -> Vec<T> {
        rows.into_iter()
            .filter_map(|row| row.map_err(|found| self.report(&found)).ok())
            .collect()
    }

    /// Returns the rows, with the readable part of those that cannot be decoded, and reports these.
    pub(crate) fn in_part<D: Partial>(
        &self,
        rows: Vec<Result<Stored<D>, Unreadable>>,
    ) -> Vec<Stored<D>> {
        rows.into_iter()
            .filter_map(|row| {
                row.or_else(|found| {
                    self.report(&found);
                    D::partial_stored(&found).ok_or(())
                })
                .ok()
            })
            .collect()
    }

    /// Reports once that a document cannot be decoded.
    pub(crate) fn report(&self, found: &Unreadable) {
        let place = match &found.location {
            Some(location) => self
                .hasher
                .hash_one((location.partition_key.to_string(), &location.id)),
            None => self.hasher.hash_one(&found.json),
        };
        let mut reported = self.reported.lock();
        if reported.len() >= MAX_REPORTED {
            reported.clear();
        }
        if !reported.insert(place) {
            return;
        }
        drop(reported);
        let document = kind(found);
        counter!("cdb.provider.documents.unreadable", "document" => document).increment(1);
        tracing::warn!(document, reason = %found, "a document cannot be read");
    }
}

/// Returns the discriminator of an undecodable document, or `foreign` if the provider does not
/// define it.
fn kind(found: &Unreadable) -> &'static str {
    let mut shapes = Durable::DOCUMENTS.iter();
    shapes
        .find(|shape| shape.discriminator == found.discriminator)
        .map_or("foreign", |shape| shape.discriminator)
}

/// Returns whether an undecodable document has a type of the provider: it is damaged, or a newer
/// version wrote it. Other types belong to other users of the container.
pub(crate) fn is_ours(found: &Unreadable) -> bool {
    kind(found) != "foreign"
}
