//! Rewrites documents of older versions in the version of their type.

use bytes::Bytes;
use cdb_model::Container;
use cdb_model::stored::{Upgraded, upgrade};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use http::Method;

use crate::container::feed::{ChangeFeed, FeedCursor, FeedStart};
use crate::container::handle::ContainerClient;
use crate::error::{Error, RequestKind, Result};
use crate::protocol::JSON;
use crate::throughput::usage::measure_charge;

/// The number of documents per page and physical partition.
const PAGE: u32 = 500;
/// The number of concurrent writes.
const CONCURRENT: usize = 32;

/// A running migration of the documents of a container.
///
/// It follows the change feed, so it also finds what an older program writes in the meantime, and
/// its position can be stored. A migration that is repeated finds nothing to do.
///
/// ```
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// use cdb_client::ContainerClient;
/// use shop::Shop;
///
/// async fn migrate(shop: &ContainerClient<Shop>) -> cdb_client::Result<()> {
///     let mut migration = shop.migrate(None);
///     while let Some(step) = migration.next_step().await? {
///         println!("{} of {} documents, {} RU", step.migrated, step.read, step.charge);
///     }
///     Ok(())
/// }
/// ```
#[derive(Debug)]
pub struct Migration<C> {
    feed: ChangeFeed<C>,
}

/// The result of one step of a migration.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct MigrationStep {
    /// The documents that were read.
    pub read: u64,
    /// Those that were rewritten in the version of their type.
    pub migrated: u64,
    /// Those that another writer changed meanwhile. A later step reads them again.
    pub changed: u64,
    /// Request units charged.
    pub charge: f64,
}

impl<C: Container> ContainerClient<C> {
    /// Begins to rewrite documents of older versions in the version of their type; see
    /// `#[document(version = 2, upcast(v1_to_v2))]`. Continues after `position` if there is one.
    pub fn migrate(&self, position: Option<FeedCursor>) -> Migration<C> {
        let start = || FeedCursor::new(FeedStart::Beginning);
        let feed = self.resume_change_feed(position.unwrap_or_else(start));
        Migration {
            feed: feed.page_size(PAGE),
        }
    }
}

impl<C: Container> Migration<C> {
    /// Returns the position after the last step.
    pub fn position(&self) -> &FeedCursor {
        self.feed.cursor()
    }

    /// Reads the next documents and rewrites the older ones, each under the version that was read.
    /// Returns `None` when there are no more.
    ///
    /// # Errors
    /// When the service cannot be reached, or a document cannot be upgraded. The position does not
    /// move then, and documents that are already rewritten stay so.
    pub async fn next_step(&mut self) -> Result<Option<MigrationStep>> {
        // A copy, so that a cancelled step does not move the position either.
        let position = self.feed.cursor().clone();
        let mut feed = self.feed.container().resume_change_feed(position);
        feed = feed.page_size(PAGE);
        let (step, charge) = measure_charge(Self::read_and_write(&mut feed)).await;
        let step = step?;
        self.feed = feed;
        Ok((step.read > 0).then_some(MigrationStep { charge, ..step }))
    }

    async fn read_and_write(feed: &mut ChangeFeed<C>) -> Result<MigrationStep> {
        let documents = feed.next_documents().await?;
        let older = documents
            .iter()
            .filter_map(|json| upgrade::<C>(json.get()).transpose());
        let older: Vec<Upgraded> = older.collect::<Result<_, _>>().map_err(Error::decode)?;
        let (container, count) = (feed.container(), older.len());
        let written = stream::iter(older)
            .map(|upgraded| async move { container.replace_upgraded(&upgraded).await })
            .buffer_unordered(CONCURRENT)
            .try_collect::<Vec<bool>>()
            .await?;
        let migrated = written.iter().filter(|written| **written).count();
        Ok(MigrationStep {
            read: documents.len() as u64,
            migrated: migrated as u64,
            changed: (count - migrated) as u64,
            charge: 0.0,
        })
    }
}

impl<C: Container> ContainerClient<C> {
    /// Writes an upgraded document. Returns `false` if another writer has changed or deleted it.
    async fn replace_upgraded(&self, upgraded: &Upgraded) -> Result<bool> {
        let (location, json) = (&upgraded.location, upgraded.json.as_bytes());
        let (partition, id) = (&location.partition_key, &location.id);
        let request = self.item_request(RequestKind::Replace, Method::PUT, id)?;
        let request = request.in_partition(partition)?;
        let request = request.body(JSON, Bytes::copy_from_slice(json));
        match self.context.send(&request.if_match(&location.etag)?).await {
            Ok(_) => Ok(true),
            Err(error) if error.is_precondition_failed() || error.is_not_found() => Ok(false),
            Err(error) => Err(error),
        }
    }
}
