//! The README, the book and the pages of the derives, compiled and run: every block of Rust in them
//! is a test of this package.
//!
//! `every_page_with_rust_is_compiled` in the suite checks that the list is complete.

macro_rules! chapters {
    ($($name:ident: $path:literal,)*) => {
        $(#[doc = include_str!($path)] pub enum $name {})*
    };
}

chapters! {
    Readme: "../../README.md",
    Start: "../../docs/guide/start.md",
    Containers: "../../docs/guide/containers.md",
    Questions: "../../docs/guide/questions.md",
    OwnDocument: "../../docs/guide/own-document.md",
    Evolution: "../../docs/evolution.md",
    TransactionalActivities: "../../docs/transactional-activities.md",
    SearchAttributes: "../../docs/search-attributes.md",
    Limits: "../../docs/limits.md",
    Emulator: "../../docs/emulator.md",
    EmulatorFaults: "../../docs/emulator-faults.md",
    Coordination: "../../docs/coordination.md",
    Messaging: "../../docs/messaging.md",
    OrderedWork: "../../docs/work.md",
    EventStore: "../../docs/event-store.md",
    ChangeFeed: "../../docs/change-feed.md",
    DeriveDocument: "../../cdb-derive/docs/document.md",
    DeriveContainer: "../../cdb-derive/docs/container.md",
    DeriveProjection: "../../cdb-derive/docs/projection.md",
    DeriveSql: "../../cdb-derive/docs/sql.md",
    Operations: "../../docs/operations.md",
    Queries: "../../docs/queries.md",
    Writing: "../../docs/writing.md",
    Search: "../../docs/search.md",
    PayloadCodecs: "../../docs/payload-codecs.md",
}
