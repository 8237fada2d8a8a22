//! The kinds of requests, with the names of OpenTelemetry's database conventions.

use std::fmt;

/// The kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum RequestKind {
    /// Reads the account document: regions and consistency.
    ReadAccount,
    /// Creates a database.
    CreateDatabase,
    /// Reads a database.
    ReadDatabase,
    /// Deletes a database and all its containers.
    DeleteDatabase,
    /// Creates a container.
    CreateContainer,
    /// Reads a container's definition.
    ReadContainer,
    /// Replaces a container's definition.
    ReplaceContainer,
    /// Deletes a container.
    DeleteContainer,
    /// Lists the physical partitions.
    ReadPhysicalPartitions,
    /// Creates an item.
    Create,
    /// Creates or replaces an item.
    Upsert,
    /// Replaces an item.
    Replace,
    /// Changes parts of an item.
    Patch,
    /// Deletes an item.
    Delete,
    /// Reads an item.
    Read,
    /// Executes an atomic batch in one logical partition.
    Batch,
    /// Executes independent operations in one request.
    Bulk,
    /// Reads one page of a query.
    Query,
    /// Reads one page of the change feed.
    ChangeFeed,
}

impl RequestKind {
    /// Returns the value of `db.operation.name`, such as `read_item`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ReadAccount => "read_account",
            Self::CreateDatabase => "create_database",
            Self::ReadDatabase => "read_database",
            Self::DeleteDatabase => "delete_database",
            Self::CreateContainer => "create_container",
            Self::ReadContainer => "read_container",
            Self::ReplaceContainer => "replace_container",
            Self::DeleteContainer => "delete_container",
            Self::ReadPhysicalPartitions => "read_partition_key_ranges",
            Self::Create => "create_item",
            Self::Upsert => "upsert_item",
            Self::Replace => "replace_item",
            Self::Patch => "patch_item",
            Self::Delete => "delete_item",
            Self::Read => "read_item",
            Self::Batch => "execute_batch",
            Self::Bulk => "execute_bulk",
            Self::Query => "query_items",
            Self::ChangeFeed => "query_change_feed",
        }
    }

    /// Whether the request reads, so that it never changes stored state.
    pub const fn is_read(self) -> bool {
        matches!(
            self,
            Self::ReadAccount
                | Self::ReadDatabase
                | Self::ReadContainer
                | Self::ReadPhysicalPartitions
                | Self::Read
                | Self::Query
                | Self::ChangeFeed
        )
    }

    /// Whether the request concerns the account, databases, containers or ranges. These share a
    /// small budget of the account.
    pub const fn is_metadata(self) -> bool {
        matches!(
            self,
            Self::ReadAccount
                | Self::CreateDatabase
                | Self::ReadDatabase
                | Self::DeleteDatabase
                | Self::CreateContainer
                | Self::ReadContainer
                | Self::ReplaceContainer
                | Self::DeleteContainer
                | Self::ReadPhysicalPartitions
        )
    }
}

impl fmt::Display for RequestKind {
    /// Writes the name in words: `read item`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, word) in self.name().split('_').enumerate() {
            if at > 0 {
                f.write_str(" ")?;
            }
            f.write_str(word)?;
        }
        Ok(())
    }
}
