//! Global secondary indexes: containers whose documents the service derives from those of a source
//! container.
//!
//! Rules: <https://learn.microsoft.com/azure/cosmos-db/global-secondary-indexes>. A definition
//! selects whole properties of one level, under their own names. It has to select the partition key
//! of the source.

use std::collections::BTreeSet;
use std::iter;

use serde::{Deserialize, Serialize};

use crate::query::index_query;
use crate::shape::DocumentShape;

/// The source of a global secondary index, as constant data.
#[derive(Clone, Copy, Debug)]
pub struct IndexSource {
    /// The name of the Rust type.
    pub name: &'static str,
    /// The paths of the partition key, outermost level first.
    pub partition_key: &'static [&'static str],
    /// All document types.
    pub documents: &'static [&'static DocumentShape],
}

/// What makes a container a global secondary index. The source and the definition cannot be changed
/// after creation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IndexDefinition {
    /// The name of the source container, in the same database. `None` in a model, which does not
    /// know the names of containers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_collection_id: Option<String>,
    /// The resource id of the source container, which the service assigns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_collection_rid: Option<String>,
    /// The query that selects the properties.
    pub definition: String,
}

impl IndexDefinition {
    /// Returns the definition of an index with these document types. It selects the discriminator, and
    /// in alphabetical order the partition key of the source and the fields of all types: the order
    /// of fields in Rust does not change it.
    pub(crate) fn of(
        source: IndexSource,
        discriminator: &'static str,
        documents: &'static [&'static DocumentShape],
    ) -> Self {
        let fields = documents.iter().flat_map(|shape| shape.fields);
        // Computed properties are those of the index, not of the source.
        let is_computed = |path: &str| {
            let mut computed = documents.iter().flat_map(|shape| shape.computed);
            computed.any(|computed| path.strip_prefix('/') == Some(computed.name))
        };
        let paths = source.partition_key.iter().copied();
        let paths = paths.chain(fields.map(|field| field.path));
        let paths = paths.filter(|path| !is_computed(path));
        let properties = paths.filter_map(|path| path.split('/').nth(1));
        let properties: BTreeSet<&str> = properties.filter(|name| *name != discriminator).collect();
        let properties: Vec<&str> = iter::once(discriminator).chain(properties).collect();
        Self {
            source_collection_id: None,
            source_collection_rid: None,
            definition: index_query(&properties),
        }
    }
}
