//! The limits of the service.
//!
//! Source, unless noted otherwise: "Azure Cosmos DB service quotas" (concepts-limits).

/// Longest item id, in bytes of UTF-8.
pub const MAX_ID_BYTES: usize = 1023;
/// Longest partition key value, in bytes of UTF-8 (large partition keys, version 2).
pub const MAX_PARTITION_KEY_BYTES: usize = 2048;
/// Most levels of a hierarchical partition key.
pub const MAX_PARTITION_KEY_LEVELS: usize = 3;
/// Room for the properties that the service adds to a document, about 205 bytes: `_rid`, `_self`,
/// `_etag`, `_attachments` and `_ts`. Microsoft does not say whether they count towards the 2 MB.
pub const SYSTEM_PROPERTY_BYTES: usize = 256;
/// Largest document that is sent, in bytes of its UTF-8 JSON. The service allows 2 MiB - 1
/// (azure-cosmos-dotnet-v3 `Constants.cs`, `MaxResourceSizeInBytes`: "maxResourceSize -
/// resourceSizePadding"), perhaps with its own properties.
pub const MAX_DOCUMENT_BYTES: usize = 2 * 1024 * 1024 - SYSTEM_PROPERTY_BYTES;
/// Largest request, and so the largest batch, in bytes.
pub const MAX_REQUEST_BYTES: usize = 2 * 1024 * 1024;
/// Most operations of one transactional batch.
pub const MAX_BATCH_OPERATIONS: usize = 100;
/// Most operations of one patch.
pub const MAX_PATCH_OPERATIONS: usize = 10;
/// Most included paths, and most excluded paths, of an indexing policy.
pub const MAX_POLICY_PATHS: usize = 1500;
/// Most paths of one composite index.
pub const MAX_COMPOSITE_PATHS: usize = 8;
/// Most composite indexes of one container.
pub const MAX_COMPOSITES: usize = 100;
/// Most unique keys of one container.
pub const MAX_UNIQUE_KEYS: usize = 10;
/// Most paths of one unique key.
pub const MAX_UNIQUE_KEY_PATHS: usize = 16;
/// Most computed properties of one container.
pub const MAX_COMPUTED_PROPERTIES: usize = 20;
/// Most dimensions of a vector ("Vector search", limitations).
pub const MAX_VECTOR_DIMENSIONS: u32 = 4096;
/// Most dimensions of a vector with a flat index ("Vector search", limitations).
pub const MAX_FLAT_VECTOR_DIMENSIONS: u32 = 505;
/// Longest SQL text of a query, in bytes.
pub const MAX_QUERY_BYTES: usize = 512 * 1024;
/// Most keys of one query for documents by key. Not a limit of the service, which limits only the
/// text and the request.
pub const MAX_KEYS_PER_QUERY: usize = 1000;
/// Longest time to live of a document or container, in seconds ("Time to live": the maximum of `Int32`).
pub const MAX_TTL_SECONDS: i64 = i32::MAX as i64;
/// Largest integer that a JSON number represents exactly: the service stores IEEE 754 doubles.
pub const MAX_EXACT_INTEGER: u64 = (1 << 53) - 1;
