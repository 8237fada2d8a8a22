//! A storage provider for [duroxide](https://docs.rs/duroxide) on Azure Cosmos DB (NoSQL).
//!
//! Every document type is an annotated struct ([`documents`]), from which ids, queries, patches,
//! batches and the container's indexing policy are derived. A turn of an orchestration is one atomic
//! batch, with a conditional lock if other runtimes may want it. The crate replaces `duroxide-cdb`: same type names,
//! same configuration, same container.
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use cdb_provider::CosmosDBProvider;
//! use duroxide::OrchestrationRegistry;
//! use duroxide::providers::ProviderError;
//! use duroxide::runtime::{Runtime, registry::ActivityRegistry};
//!
//! async fn start() -> Result<Arc<Runtime>, ProviderError> {
//!     let store = CosmosDBProvider::new("https://account.documents.azure.com", "<key>", "duroxide").await?;
//!     let activities = ActivityRegistry::builder().build();
//!     let orchestrations = OrchestrationRegistry::builder().build();
//!     Ok(Runtime::start_with_store(Arc::new(store), activities, orchestrations).await)
//! }
//! ```
//!
//! # Features
//!
//! - `entra` (off by default): identities of Microsoft Entra ID, `client::EntraId`, for
//!   [`CosmosDBProviderConfig::credential`].
//! - `codecs` (off by default): encryption and compression of payloads,
//!   [`CosmosDBProviderConfig::payload_codec`].

#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod activity;
mod config;
mod contract;
mod delivery;
mod error;
mod operate;
mod provider;
mod queue;
pub mod record;
mod stored;
mod timing;
mod turn;

pub use cdb_client as client;
pub use cdb_coordination as coordination;
pub use cdb_model as model;

pub use activity::effects::{
    ActivityError, Effects, EffectsError, TransactionalActivity, WithMessages,
};
pub use cdb_coordination::membership::{
    InMemoryLeaseProvider, LeaseProvider, MemberState, MembershipConfig, MembershipView, SlotSet,
};
pub use cdb_derive::SearchAttributes;
pub use config::{CosmosDBProviderConfig, HandOver, OnNondeterminism};
pub use operate::admin::Purge;
pub use operate::observe;
pub use operate::replay;
pub use operate::rewind::{Fork, Restart, RewindResult};
pub use operate::{InstanceSearch, TreeScope};
pub use provider::CosmosDBProvider;
pub use stored::attributes::{Attribute, AttributesError, SearchAttributes};
#[doc(hidden)]
pub use stored::codegen_support as __private;
pub use stored::instance_labels::InstanceLabel;
pub use stored::{documents, payload};

pub mod prelude {
    //! What most programs import: `use cdb_provider::prelude::*;`
    //!
    //! It has the derives, the traits that give documents, keys and search attributes their methods, and
    //! the types that begin a program. The rest is in [`client`](crate::client),
    //! [`coordination`](crate::coordination), [`documents`](crate::documents) and
    //! [`model`](crate::model).

    pub use cdb_client::feed::FeedRow;
    pub use cdb_client::{Bootstrap, ContainerClient, CosmosClient, Page};
    pub use cdb_coordination::{
        ChangeProcessor, HandlerError, LeaseError, Leases, Message, MessageDocument, Messaging,
        OutboxBatch, Received,
    };
    pub use cdb_model::operation::{BulkBatch, Lease};
    pub use cdb_model::stored::UnknownFields;
    pub use cdb_model::value::SortableText;
    pub use cdb_model::{
        Batch, Container, Document, DocumentKey, PartitionKeyFields, Patch, Projection, Query,
        Scalar, Stored, Timestamp, sql,
    };

    pub use cdb_derive::SearchAttributes;

    pub use crate::activity::effects::{ActivityError, Effects};
    pub use crate::config::CosmosDBProviderConfig;
    pub use crate::provider::CosmosDBProvider;
    pub use crate::stored::attributes::SearchAttributes;
    pub use crate::stored::documents::{Durable, Rule};
}
