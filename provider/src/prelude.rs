//! What most programs import: `use cdb_provider::prelude::*;`
//!
//! It has the derives, the traits that give documents, keys and search attributes their methods, and
//! the types that begin a program. The rest is in [`client`](crate::client),
//! [`coordination`](crate::coordination), [`documents`](crate::documents) and
//! [`model`](crate::model).

pub use cdb_client::{Bootstrap, ContainerClient, CosmosClient, FeedRow, Page};
pub use cdb_coordination::{
    ChangeProcessor, Failed, LeaseError, Leases, Message, MessageDocument, Messaging, OutboxBatch,
    Received,
};
pub use cdb_model::{
    Batch, BulkBatch, Container, Document, DocumentKey, Lease, PartitionKeyFields, Patch,
    Projection, Query, Scalar, SortableText, Stored, Timestamp, UnknownFields, sql,
};

pub use cdb_derive::SearchAttributes;

pub use crate::activity::effects::{ActivityError, Effects};
pub use crate::config::CosmosDBProviderConfig;
pub use crate::provider::CosmosDBProvider;
pub use crate::stored::attributes::SearchAttributes;
pub use crate::stored::documents::{Durable, Rule};
