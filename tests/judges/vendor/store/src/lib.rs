//! Stands in for duroxide's SQLite store in duroxide's own tests: the same constructors, on the
//! emulator that `cargo test-vendor` has started. A database file is a container, so a store that a
//! test opens again holds the same documents.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use sqlx::SqlitePool;
use sqlx::sqlite::SqlitePoolOptions;

#[cfg(not(feature = "peer"))]
pub use cdb_provider::CosmosDBProvider as SqliteProvider;
#[cfg(feature = "peer")]
pub use duroxide_cdb::CosmosDBProvider as SqliteProvider;

/// A store on a container of its own.
///
/// # Errors
/// The reason why the container cannot be opened.
pub async fn new_in_memory() -> Result<SqliteProvider, String> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    open(format!("memory-{}", NUMBER.fetch_add(1, Ordering::Relaxed))).await
}

/// The store of a database file. `options` are SQLite's.
///
/// # Errors
/// The reason why the container cannot be opened.
pub async fn new(url: &str, options: Option<()>) -> Result<SqliteProvider, String> {
    let _none = options;
    if url.contains(":memory:") {
        return new_in_memory().await;
    }
    let is_allowed = |letter: char| letter.is_ascii_alphanumeric();
    open(url.replace(|letter| !is_allowed(letter), "-")).await
}

/// An empty database, for the tests that change SQLite's tables. They cannot pass.
pub fn get_pool() -> &'static SqlitePool {
    static POOL: OnceLock<SqlitePool> = OnceLock::new();
    let connect = || SqlitePoolOptions::new().connect_lazy("sqlite::memory:");
    POOL.get_or_init(|| connect().expect("the address is valid"))
}

#[cfg(not(feature = "peer"))]
async fn open(container: String) -> Result<SqliteProvider, String> {
    let account = cdb_provider::CosmosDBProviderConfig::from_env();
    let config = cdb_provider::CosmosDBProviderConfig {
        container,
        on_nondeterminism: cdb_provider::OnNondeterminism::Fail,
        ..account.map_err(|error| error.to_string())?
    };
    let opened = SqliteProvider::open::<cdb_provider::documents::Durable>(config).await;
    let opened = opened.map_err(|error| error.to_string());
    opened.map(|(provider, _)| provider)
}

#[cfg(feature = "peer")]
async fn open(container: String) -> Result<SqliteProvider, String> {
    let from_env = |name| std::env::var(name).map_err(|error| format!("{name}: {error}"));
    let (endpoint, key) = (from_env("COSMOS_ENDPOINT")?, from_env("COSMOS_KEY")?);
    let opened = SqliteProvider::new_with_container(&endpoint, &key, "duroxide", &container).await;
    opened.map_err(|error| error.to_string())
}
