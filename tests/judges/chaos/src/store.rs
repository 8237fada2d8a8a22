//! The role `store`: an emulator on a directory, as a process of its own.

use std::path::PathBuf;

use cdb_emulator::Settings;
use clap::Args;

/// Options of the store.
#[derive(Clone, Debug, Args)]
pub(crate) struct StoreArgs {
    /// Directory that keeps the data
    #[arg(long)]
    pub(crate) data: PathBuf,
    /// Port to listen on; 0 for any free one
    #[arg(long, default_value_t = 0)]
    pub(crate) port: u16,
    /// Settings as JSON, in the form of POST /_admin/settings
    #[arg(long, default_value = "{}")]
    pub(crate) settings: String,
    /// Request units per second of a container
    #[arg(long)]
    pub(crate) throughput: Option<u32>,
}

/// Serves until it is killed. Prints `ready` and its endpoint first.
///
/// # Errors
/// When the emulator cannot be started.
pub(crate) async fn keep(args: StoreArgs) -> Result<(), String> {
    let settings: Settings =
        serde_json::from_str(&args.settings).map_err(|error| error.to_string())?;
    let mut builder = settings.data_dir(args.data).port(args.port);
    if let Some(throughput) = args.throughput {
        builder = builder.throughput(throughput);
    }
    let emulator = builder.start().await.map_err(|error| error.to_string())?;
    println!("ready {}", emulator.endpoint());
    crate::runtime::until_input_ends().await;
    Ok(())
}
