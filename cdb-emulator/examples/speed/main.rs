//! The benchmark of the emulator: request rates over HTTP, start time, and latencies at two sizes
//! of a container.
//!
//! `cargo xtask bench-emulator` prints the tables, `cargo xtask bench-emulator --docs` also writes them into
//! docs/performance.md. `--documents <n>` sets the number of documents instead of a million. The
//! server is a process of its own.

mod measure;
mod wire;

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use cdb_emulator::Emulator;

use measure::{Latencies, Rate, Server};

type Failure = Box<dyn std::error::Error>;

/// The number of concurrent connections.
const CONNECTIONS: usize = 64;
/// The duration of a rate measurement.
const TIME: Duration = Duration::from_secs(5);
/// The number of documents of the small container.
const FEW: u64 = 10_000;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &*arguments.iter().map(String::as_str).collect::<Vec<_>>() {
        ["serve", directory] => serve(directory),
        [] => report(1_000_000, false),
        ["--docs"] => report(1_000_000, true),
        ["--documents", count] => report(count.parse()?, false),
        _ => Err("unknown option; use --docs or --documents <n>".into()),
    }
}

/// Runs the server: prints its endpoint, and serves until it is killed.
#[tokio::main]
async fn serve(directory: &str) -> Result<(), Failure> {
    let mut builder = Emulator::builder().physical_partitions(3);
    if !directory.is_empty() {
        builder = builder.data_dir(directory);
    }
    let emulator = builder.start().await?;
    println!("{}", emulator.endpoint());
    std::future::pending().await
}

/// The results for one kind of storage.
struct Column {
    start: Duration,
    writes: Rate,
    reads: Rate,
    few: Latencies,
    many: Latencies,
}

fn column(directory: &str, many: u64) -> Result<Column, Failure> {
    let mut starts = Vec::new();
    for _ in 0..20 {
        starts.push(Server::start(directory)?.started);
    }
    let server = Server::start(directory)?;
    let start = measure::median(&mut starts);
    server.connect()?.define(measure::POLICY)?;
    let writes = measure::writes(&server, CONNECTIONS, TIME)?;
    let reads = measure::reads(&server, CONNECTIONS, TIME)?;
    // Recreated, so that the container has exactly the documents of the table.
    server.connect()?.redefine(measure::POLICY)?;
    measure::fill(&server, 0, FEW)?;
    let few = measure::latencies(&server, FEW)?;
    measure::fill(&server, FEW, many)?;
    let many = measure::latencies(&server, many)?;
    Ok(Column {
        start,
        writes,
        reads,
        few,
        many,
    })
}

fn report(many: u64, docs: bool) -> Result<(), Failure> {
    let folder = tempfile::tempdir()?;
    let memory = column("", many)?;
    let disk = column(&folder.path().to_string_lossy(), many)?;
    let text = tables(many, &memory, &disk)?;
    println!("{text}");
    if docs {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/performance.md");
        let old = std::fs::read_to_string(&path)?;
        std::fs::write(&path, with_section(&old, &text))?;
    }
    Ok(())
}

/// The heading of the tables.
const HEADING: &str = "## Emulator\n";

fn tables(many: u64, memory: &Column, disk: &Column) -> Result<String, std::fmt::Error> {
    let mut text = format!(
        "{HEADING}\n    cargo xtask bench-emulator --docs\n\n\
         Point operations over HTTP on loopback, signed, {CONNECTIONS} connections, documents of about 300 bytes with \
         two indexed paths and one composite; the client runs on the same cores. On disk a response waits until its \
         write is on the disk; concurrent writes share one wait.\n\n\
         | | in memory | on disk |\n|---|--:|--:|\n"
    );
    writeln!(
        text,
        "| process start to first answer, ms | {:.1} | {:.1} |",
        milliseconds(memory.start),
        milliseconds(disk.start)
    )?;
    for (name, memory, disk) in [
        ("creates", &memory.writes, &disk.writes),
        ("reads", &memory.reads, &disk.reads),
    ] {
        writeln!(
            text,
            "| {name} per second | {:.0} | {:.0} |\n| p50 / p99 of a request, ms | {:.2} / {:.2} | {:.2} / {:.2} |",
            memory.per_second,
            disk.per_second,
            milliseconds(memory.p50),
            milliseconds(memory.p99),
            milliseconds(disk.p50),
            milliseconds(disk.p99)
        )?;
    }
    write!(
        text,
        "\nOne connection, 3 physical partitions, 100 documents per partition key; medians in ms. The sort runs \
         `TOP 10 … ORDER BY` in each physical partition.\n\n\
         | | memory: {FEW} | {many} | | disk: {FEW} | {many} | |\n|---|--:|--:|--:|--:|--:|--:|\n"
    )?;
    for (at, name) in measure::LATENCIES.into_iter().enumerate() {
        let mut cells = String::new();
        for column in [memory, disk] {
            let few = milliseconds(column.few[at]);
            let many = milliseconds(column.many[at]);
            write!(cells, " {few:.3} | {many:.3} | {:.2}× |", many / few)?;
        }
        writeln!(text, "| {name} |{cells}")?;
    }
    Ok(text)
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}

/// Replaces the section of a document, or appends it.
fn with_section(document: &str, section: &str) -> String {
    let Some(begin) = document.find(HEADING) else {
        return format!("{}\n\n{section}", document.trim_end());
    };
    let after = &document[begin + HEADING.len()..];
    let rest = after.find("\n## ").map_or("", |end| &after[end..]);
    format!("{}{section}{rest}", &document[..begin])
}
