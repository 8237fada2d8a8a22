//! The end of a test on an account.

use cdb_client::DatabaseClient;

/// Deletes the database of a test, also while the test panics.
pub(crate) fn remove(database: DatabaseClient) {
    let name = database.name().to_owned();
    let removal = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.expect("a runtime").block_on(database.delete())
    });
    match removal.join() {
        Ok(Ok(())) => {}
        Ok(Err(error)) => eprintln!("database {name} stays: {error}"),
        Err(_) => eprintln!("database {name} stays"),
    }
}
