//! Writes a container with unfinished work into a file: `upgrade_fixture <program> <file>`, see
//! tests/upgrade/README.md.
//!
//! The program (`leave-state` of bench/peers) is started twice, with the parts `first` and
//! `second`. During the second nothing is delivered from one instance to another.

#[path = "../upgrade/raw_container.rs"]
#[expect(dead_code, reason = "the test reads what this writes")]
mod raw_container;

use std::process::{Command, ExitCode};

use cdb_emulator::{Effect, Fault, OperationKind};
use raw_container::{RawContainer, emulator};

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [program, file] = arguments.as_slice() else {
        eprintln!("upgrade_fixture <program> <file>");
        return ExitCode::FAILURE;
    };
    let emulator = emulator().start().await.expect("the emulator starts");
    for part in ["first", "second"] {
        if part == "second" {
            let unavailable = Effect::error(503, 0);
            emulator.inject(Fault::always(unavailable).on(OperationKind::Bulk));
        }
        // The emulator answers on other threads.
        let ended = Command::new(program)
            .args([&*emulator.endpoint(), emulator.key(), part])
            .status()
            .expect("the program can be started");
        if !ended.success() {
            return ExitCode::FAILURE;
        }
    }
    let dump = RawContainer::of(&emulator).dump().await;
    std::fs::write(file, &dump).expect("the file can be written");
    println!(
        "{} documents in {} bytes",
        dump.lines().count() - 1,
        dump.len()
    );
    ExitCode::SUCCESS
}
