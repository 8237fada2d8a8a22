//! `cargo xtask NAME [ARGUMENT…]`: the commands that are rarely needed. Without a name, it lists them.

use std::path::Path;
use std::process::{Command, ExitCode};

/// A command: a line of cargo's arguments, to which those of the user are added.
struct Task {
    name: &'static str,
    cargo: &'static str,
    what: &'static str,
}

const TASKS: [Task; 14] = [
    Task {
        name: "bench-emulator",
        cargo: "run --quiet --release -p cdb-emulator --example speed --",
        what: "writes per second, start and latencies of the emulator; --docs writes them into docs/performance.md",
    },
    Task {
        name: "bench-orch",
        cargo: "run --release --manifest-path bench/Cargo.toml --",
        what: "requests, request units and time beside duroxide-cdb; needs OpenSSL's headers, for the peer",
    },
    Task {
        name: "chaos-peer",
        cargo: "run --quiet --release --manifest-path bench/chaos/Cargo.toml --",
        what: "cargo chaos, on duroxide-cdb 0.1.10; needs OpenSSL's headers",
    },
    Task {
        name: "costs",
        cargo: "run --quiet -p cdb-tests --example costs",
        what: "what each feature costs in requests and request units: the table of docs/costs.md",
    },
    Task {
        name: "guards",
        cargo: "run --quiet -p cdb-guards --",
        what: "removes one guard at a time from a copy of the source and searches for the fault; --docs writes tests/judges/guards/README.md",
    },
    Task {
        name: "judge",
        cargo: "run --quiet -p cdb-judge --",
        what: "judges histories that runs have recorded, by the promises alone: docs/testing.md",
    },
    Task {
        name: "measure-work",
        cargo: "run --quiet --release -p cdb-work --example work_measure --",
        what: "order and ends of the work coordinator with killed processes (order); requests of its strategies (flush)",
    },
    Task {
        name: "release-check",
        cargo: "run --quiet -p cdb-release-check --",
        what: "what a release needs, up to a dry run of its upload: CONTRIBUTING.md; --gate is what holds on every commit",
    },
    Task {
        name: "shop-policy",
        cargo: "run --quiet -p cdb-provider --example own_document -- policy provider/examples/own_document/indexing-policy.json",
        what: "regenerates the indexing policy of the example with a document type of its own",
    },
    Task {
        name: "steps",
        cargo: "run --quiet -p cdb-tests --example steps --",
        what: "what a step of an orchestration costs, in simulated time: a table of docs/performance.md",
    },
    Task {
        name: "test-brokers",
        cargo: "test --manifest-path tests/brokers/Cargo.toml -- --nocapture",
        what: "ordered work bridged to a real NATS server, with bridges that are killed; needs the program nats-server",
    },
    Task {
        name: "test-clients",
        cargo: "run --quiet -p cdb-sdk-tests --example clients --",
        what: "Microsoft's JavaScript and Python clients against the emulator; needs Node.js with npm, Python with venv, and their \
               registries; --docs writes docs/comparisons.md",
    },
    Task {
        name: "test-dashboard",
        cargo: "test -p cdb-cli --test cli -- --ignored --nocapture",
        what: "the dashboard in a headless Chromium, with 100,000 instances; CDB_SCREENSHOTS names a folder for pictures",
    },
    Task {
        name: "test-second-store",
        cargo: "run --quiet -p cdb-second-store --",
        what: "the suites on the in-memory emulator of the Cosmos team; --docs writes docs/testing.md, names select suites",
    },
];

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let name = arguments.next().unwrap_or_default();
    let Some(task) = TASKS.iter().find(|task| name == task.name) else {
        for Task { name, what, .. } in &TASKS {
            println!("cargo xtask {name:17}  {what}");
        }
        if name.is_empty() {
            return ExitCode::SUCCESS;
        }
        eprintln!("no command is named {}", name.display());
        return ExitCode::FAILURE;
    };
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(task.cargo.split_whitespace()).args(arguments);
    cargo.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.."));
    match cargo.status() {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("cargo: {error}");
            ExitCode::FAILURE
        }
    }
}
