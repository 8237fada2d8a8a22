//! The options of the command, and the emulator that they describe.

use std::path::PathBuf;

use cdb_emulator::{Emulator, EmulatorBuilder, FaultPlan};
use clap::Parser;

/// A server that speaks Azure Cosmos DB's REST protocol (NoSQL), for development and tests. It listens on the loopback
/// address only. The data is in memory, and gone at the end, unless --data is given.
#[derive(Debug, Parser)]
#[command(name = "cdb-emulator", version)]
pub(crate) struct Args {
    /// Port to listen on; 0 for any free one
    #[arg(long, value_name = "PORT", default_value_t = 8081)]
    port: u16,
    /// Directory that keeps the data
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Physical partitions of a new container
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    pub(crate) partitions: u32,
    /// Request units per second of a container whose creator names none; without it there is no limit
    #[arg(long, value_name = "RU/S")]
    pub(crate) throughput: Option<u32>,
    /// Account key in base64, instead of the well-known one of all emulators
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// Latency and faults as JSON, in the form of POST /_admin/faults
    #[arg(long, value_name = "FILE")]
    faults: Option<PathBuf>,
    /// Speak HTTPS, with a certificate made at the start
    #[arg(long)]
    tls: bool,
    /// Where to write the authority of that certificate, as PEM, for clients to trust
    #[arg(long, value_name = "FILE", requires = "tls")]
    pub(crate) certificate: Option<PathBuf>,
}

impl Args {
    /// The emulator as it is to be started.
    pub(crate) fn builder(&self) -> Result<EmulatorBuilder, String> {
        let mut builder = Emulator::builder()
            .port(self.port)
            .physical_partitions(self.partitions)
            .faults(self.plan()?);
        if let Some(directory) = &self.data {
            builder = builder.data_dir(directory);
        }
        if let Some(throughput) = self.throughput {
            builder = builder.throughput(throughput);
        }
        if let Some(key) = &self.key {
            builder = builder.key(key);
        }
        if self.tls {
            builder = builder.tls();
        }
        Ok(builder)
    }

    fn plan(&self) -> Result<FaultPlan, String> {
        let Some(file) = &self.faults else {
            return Ok(FaultPlan::default());
        };
        let name = file.display();
        let text = std::fs::read(file).map_err(|error| format!("cannot read {name}: {error}"))?;
        serde_json::from_slice(&text).map_err(|error| format!("no faults in {name}: {error}"))
    }
}
