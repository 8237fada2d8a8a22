//! The measured programs. Ours is this program; the others are built on first use.

use std::path::{Path, PathBuf};
use std::process::Command;

use cdb_bench_child::Peer;

/// The program of a provider.
pub fn program(peer: Peer) -> Result<PathBuf, String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    match peer {
        Peer::Ours => Ok(own),
        Peer::Existing | Peer::Postgres => Ok(own.with_file_name("cdb-bench-peers")),
    }
}

/// Builds the other providers into the folder of this program. If the program was moved, they must
/// be in its folder.
pub fn build() -> Result<(), String> {
    let Some(cargo) = std::env::var_os("CARGO") else {
        let beside = program(Peer::Existing)?;
        let missing = || {
            format!(
                "{} is not there; start with `cargo xtask bench-orch`",
                beside.display()
            )
        };
        return beside.is_file().then_some(()).ok_or_else(missing);
    };
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let target = own
        .parent()
        .and_then(Path::parent)
        .ok_or("a program outside of a target folder")?;
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/Cargo.toml");
    let built = Command::new(cargo)
        .args(["build", "--release", "--quiet", "--manifest-path"])
        .arg(manifest)
        .arg("--target-dir")
        .arg(target)
        .status()
        .map_err(|error| format!("cargo: {error}"))?;
    if built.success() {
        Ok(())
    } else {
        Err("the other providers do not build here; see above".to_owned())
    }
}
