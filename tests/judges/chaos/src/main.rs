//! The command `chaos` on the provider of this workspace.

use std::process::ExitCode;

use cdb_chaos::{Subject, command};

#[tokio::main]
async fn main() -> ExitCode {
    command(Subject::OURS).await
}
