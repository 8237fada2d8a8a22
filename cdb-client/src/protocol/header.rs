//! The header names of the protocol.
//!
//! Source: azure_data_cosmos_driver `cosmos_headers.rs`. Where the REST documentation differs, it
//! is wrong (`x-ms-query-enable-crosspartition` has no effect).

use http::HeaderName;

/// The service version of all current official clients. Patch, batch and hierarchical keys require
/// it.
pub(crate) const API_VERSION: &str = "2020-07-15";
/// Partition merge (1). Without it, a container with merged partitions may refuse requests.
pub(crate) const CAPABILITIES: &str = "1";

macro_rules! headers {
    ($($(#[$doc:meta])* $name:ident = $text:literal;)*) => {$(
        $(#[$doc])*
        pub(crate) const $name: HeaderName = HeaderName::from_static($text);
    )*};
}

headers! {
    ACTIVITY_ID = "x-ms-activity-id";
    /// `Incremental Feed` turns a read feed into a change feed.
    A_IM = "a-im";
    /// Lets a region other than the first accept a write, if the account has several write regions.
    ALLOW_TENTATIVE_WRITES = "x-ms-cosmos-allow-tentative-writes";
    AUTOPILOT = "x-ms-cosmos-offer-autopilot-settings";
    BATCH_ATOMIC = "x-ms-cosmos-batch-atomic";
    BATCH_CONTINUE_ON_ERROR = "x-ms-cosmos-batch-continue-on-error";
    CHARGE = "x-ms-request-charge";
    CONTINUATION = "x-ms-continuation";
    CROSS_PARTITION = "x-ms-documentdb-query-enablecrosspartition";
    DATE = "x-ms-date";
    END_EPK = "x-ms-end-epk";
    /// The form of the rows of a change feed of all versions.
    FEED_FORM = "x-ms-cosmos-changefeed-wire-format-version";
    /// Lets a region refuse a read (403/3) if it does not have the writes of the partition. Source:
    /// azure-cosmos-dotnet-v3 `ClientRetryPolicy.cs`.
    HUB_REGION_ONLY = "x-ms-cosmos-hub-region-processing-only";
    INDEX_PROGRESS = "x-ms-documentdb-collection-index-transformation-progress";
    IS_BATCH = "x-ms-cosmos-is-batch-request";
    IS_QUERY = "x-ms-documentdb-isquery";
    IS_UPSERT = "x-ms-documentdb-is-upsert";
    IS_PLAN_REQUEST = "x-ms-cosmos-is-query-plan-request";
    MAX_ITEMS = "x-ms-max-item-count";
    PARTITION_KEY = "x-ms-documentdb-partitionkey";
    POPULATE_QUOTA = "x-ms-documentdb-populatequotainfo";
    PREFER = "prefer";
    /// `Low` or `High`. Source, as of the bucket: azure-cosmos-dotnet-v3 `HttpConstants.cs`.
    PRIORITY_LEVEL = "x-ms-cosmos-priority-level";
    QUERY_FEATURES = "x-ms-cosmos-supported-query-features";
    QUERY_VERSION = "x-ms-cosmos-query-version";
    RANGE_ID = "x-ms-documentdb-partitionkeyrangeid";
    READ_CONSISTENCY = "x-ms-cosmos-read-consistency-strategy";
    READ_KEY_TYPE = "x-ms-read-key-type";
    /// Milliseconds, unlike the standard `Retry-After`.
    RETRY_AFTER_MS = "x-ms-retry-after-ms";
    SDK_CAPABILITIES = "x-ms-cosmos-sdk-supportedcapabilities";
    SESSION_TOKEN = "x-ms-session-token";
    START_EPK = "x-ms-start-epk";
    SUBSTATUS = "x-ms-substatus";
    THROUGHPUT = "x-ms-offer-throughput";
    THROUGHPUT_BUCKET = "x-ms-cosmos-throughput-bucket";
    VERSION = "x-ms-version";
}
