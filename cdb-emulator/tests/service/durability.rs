//! Tests of durability after kills, and of the lock of the data directory.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use cdb_emulator::{Emulator, EmulatorError, WELL_KNOWN_KEY};
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::wire::Wire;

/// The number of kills.
const ROUNDS: u64 = 50;
/// The number of concurrent writers.
const WRITERS: u64 = 4;
/// The number of documents of a batch.
const BATCH: u64 = 5;

/// The emulator in a process of its own.
struct Process {
    child: Child,
    address: SocketAddr,
    /// Kept open, because the process can write more output.
    _said: BufReader<ChildStdout>,
}

impl Process {
    fn start(directory: &Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_cdb-emulator"))
            .arg("--data")
            .arg(directory)
            .args(["--port", "0"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let mut said = BufReader::new(child.stdout.take().expect("piped"));
        let lines = said.by_ref().lines();
        let address = lines.map_while(Result::ok).find_map(|line| {
            let (_, rest) = line.split_once("http://")?;
            rest.split('/').next()?.parse().ok()
        });
        Self {
            child,
            address: address.expect("it says where it listens"),
            _said: said,
        }
    }

    fn connect(&self) -> Wire {
        Wire::connect(self.address, WELL_KNOWN_KEY).expect("it listens")
    }

    /// Kills the process with SIGKILL.
    fn kill(mut self) {
        self.child.kill().expect("it can be killed");
        self.child.wait().expect("it ends");
    }
}

/// The state of a partition key that a writer expects.
#[derive(Debug, Default)]
struct Ledger {
    /// Acknowledged documents with their revisions.
    kept: BTreeMap<String, u64>,
    /// The last write, which was not acknowledged: it is stored completely or not at all.
    open: BTreeMap<String, u64>,
}

/// Sends creates, replaces and batches until the connection breaks.
fn write(wire: &mut Wire, key: &str, ledger: &Mutex<Ledger>) {
    for step in 0_u64.. {
        let changes: BTreeMap<String, u64> = match step % 3 {
            0 => [(format!("d{step}"), 0)].into(),
            1 => [("d0".to_owned(), step)].into(),
            _ => (0..BATCH).map(|n| (format!("b{step}-{n}"), 0)).collect(),
        };
        ledger.lock().expect("a ledger").open.clone_from(&changes);
        let document = |(id, n): (&String, &u64)| json!({ "id": id, "pk": key, "n": n });
        let first = changes.iter().next().map(document).expect("a document");
        let sent = match step % 3 {
            0 => wire.post(key, &[], &first.to_string()),
            1 => wire.item("PUT", (key, "d0"), &first.to_string()),
            _ => {
                let operations = changes.iter().map(
                    |change| json!({ "operationType": "Create", "resourceBody": document(change) }),
                );
                let headers = [
                    ("x-ms-cosmos-is-batch-request", "True"),
                    ("x-ms-cosmos-batch-atomic", "True"),
                ];
                wire.post(key, &headers, &operations.collect::<Value>().to_string())
            }
        };
        let Ok(reply) = sent else { return };
        assert!(matches!(reply.status, 200 | 201), "{reply:?}");
        let mut ledger = ledger.lock().expect("a ledger");
        let acknowledged = std::mem::take(&mut ledger.open);
        ledger.kept.extend(acknowledged);
    }
}

/// Reads all documents of a partition key.
fn read(wire: &mut Wire, key: &str) -> BTreeMap<String, u64> {
    let mut found = BTreeMap::new();
    let mut continuation = String::new();
    loop {
        let mut headers = vec![
            ("x-ms-documentdb-isquery", "True"),
            ("content-type", "application/query+json"),
        ];
        if !continuation.is_empty() {
            headers.push(("x-ms-continuation", &continuation));
        }
        let query = r#"{"query":"SELECT c.id, c.n FROM c"}"#;
        let reply = wire.post(key, &headers, query).expect("an answer");
        assert_eq!(reply.status, 200);
        let body: Value = serde_json::from_slice(&reply.body).expect("JSON");
        for row in body["Documents"].as_array().expect("rows") {
            let id = row["id"].as_str().expect("an id").to_owned();
            found.insert(id, row["n"].as_u64().expect("a version"));
        }
        reply
            .header("x-ms-continuation")
            .clone_into(&mut continuation);
        if continuation.is_empty() {
            return found;
        }
    }
}

/// Compares the stored documents with the expected state.
fn judge(key: &str, ledger: &Ledger, found: &BTreeMap<String, u64>) {
    let mut with_open = ledger.kept.clone();
    with_open.extend(ledger.open.clone());
    assert!(
        *found == ledger.kept || *found == with_open,
        "{key}: lost, half there or made up: {found:?}\nacknowledged: {:?}\nopen: {:?}",
        ledger.kept,
        ledger.open
    );
}

#[test]
fn acknowledged_writes_survive_fifty_kills() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut process = Process::start(folder.path());
    process.connect().define("").expect("a container");
    let mut settled: Vec<(String, BTreeMap<String, u64>)> = Vec::new();
    for round in 0..ROUNDS {
        let keys: Vec<String> = (0..WRITERS).map(|n| format!("r{round}w{n}")).collect();
        let ledgers: Vec<Mutex<Ledger>> = keys.iter().map(|_| Mutex::default()).collect();
        let wires: Vec<Wire> = keys.iter().map(|_| process.connect()).collect();
        std::thread::scope(|scope| {
            for ((mut wire, key), ledger) in wires.into_iter().zip(&keys).zip(&ledgers) {
                scope.spawn(move || write(&mut wire, key, ledger));
            }
            // Every writer has acknowledged writes, even on a slow machine.
            let empty = |ledger: &Mutex<Ledger>| ledger.lock().expect("a ledger").kept.is_empty();
            while ledgers.iter().any(empty) {
                std::thread::sleep(Duration::from_millis(5));
            }
            // The delay differs per round, so that kills occur at different moments.
            std::thread::sleep(Duration::from_millis(60 + round * 37 % 90));
            process.kill();
        });
        process = Process::start(folder.path());
        let mut wire = process.connect();
        for (key, ledger) in keys.into_iter().zip(ledgers) {
            let ledger = ledger.into_inner().expect("a ledger");
            let found = read(&mut wire, &key);
            judge(&key, &ledger, &found);
            settled.push((key, found));
        }
    }
    let mut wire = process.connect();
    for (key, expected) in &settled {
        assert_eq!(read(&mut wire, key), *expected, "{key} changed later");
    }
    process.kill();
    let connection = Connection::open(folder.path().join("cosmos.sqlite")).expect("a database");
    let sound: String = connection
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .expect("an answer");
    assert_eq!(sound, "ok");
}

async fn start(folder: &Path) -> Result<Emulator, EmulatorError> {
    Emulator::builder().data_dir(folder).start().await
}

#[tokio::test]
async fn a_directory_belongs_to_one_emulator_until_it_stops() {
    let folder = tempfile::tempdir().expect("a folder");
    let process = Process::start(folder.path());
    let refused = start(folder.path()).await.expect_err("it is in use");
    assert!(matches!(refused, EmulatorError::InUse { .. }), "{refused}");
    assert!(refused.to_string().contains("is in use; stop"), "{refused}");
    process.kill();
    let emulator = start(folder.path()).await.expect("the lock died with it");
    let refused = Command::new(env!("CARGO_BIN_EXE_cdb-emulator"))
        .arg("--data")
        .arg(folder.path())
        .args(["--port", "0"])
        .output()
        .expect("the binary starts");
    let said = String::from_utf8_lossy(&refused.stderr);
    let directory = folder.path().to_string_lossy();
    assert!(
        !refused.status.success() && said.contains(&*directory),
        "{said}"
    );
    drop(emulator);
    start(folder.path())
        .await
        .expect("it was given back at once");
}

#[tokio::test]
async fn data_of_a_newer_version_are_rejected_and_not_changed() {
    let folder = tempfile::tempdir().expect("a folder");
    drop(start(folder.path()).await.expect("it starts"));
    let file = folder.path().join("cosmos.sqlite");
    let connection = Connection::open(&file).expect("a database");
    connection
        .pragma_update(None, "user_version", 1000)
        .expect("it is set");
    drop(connection);
    let before = std::fs::read(&file).expect("a file");
    let refused = start(folder.path()).await.expect_err("it is newer");
    assert!(
        matches!(refused, EmulatorError::Newer { found: 1000, .. }),
        "{refused}"
    );
    assert!(
        refused.to_string().contains("use the newer emulator"),
        "{refused}"
    );
    assert_eq!(std::fs::read(&file).expect("a file"), before);
}

#[tokio::test]
async fn containers_of_an_older_emulator_keep_their_hash() {
    let folder = tempfile::tempdir().expect("a folder");
    drop(start(folder.path()).await.expect("it starts"));
    let file = folder.path().join("cosmos.sqlite");
    let connection = Connection::open(&file).expect("a database");
    let older = r#"PRAGMA user_version = 1; INSERT INTO container (database, id, definition, etag, created, ranges)
        VALUES ('d', 'c', '{"id":"c","partitionKey":{"paths":["/pk"]}}', '', 0, '[]')"#;
    connection.execute_batch(older).expect("it is written");
    drop(connection);
    drop(start(folder.path()).await.expect("it starts"));
    let connection = Connection::open(&file).expect("a database");
    let sql = "SELECT definition ->> '$.partitionKey.version' FROM container";
    let version = connection.query_row(sql, [], |row| row.get::<_, i64>(0));
    assert_eq!(
        version.expect("a version"),
        2,
        "it hashed every key as in version 2"
    );
}

#[tokio::test]
async fn files_of_other_applications_are_rejected_and_not_changed() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("cosmos.sqlite");
    let foreign = Connection::open(&file).expect("a database");
    foreign
        .execute_batch("CREATE TABLE mine (x)")
        .expect("a table");
    drop(foreign);
    let theirs = std::fs::read(&file).expect("a file");
    for content in [theirs, b"a letter to somebody".repeat(100)] {
        std::fs::write(&file, &content).expect("a file");
        let refused = start(folder.path()).await.expect_err("it is foreign");
        let said = refused.to_string();
        assert!(
            said.contains("is not a database of this emulator"),
            "{said}"
        );
        assert_eq!(std::fs::read(&file).expect("a file"), content);
    }
    let inside = file.join("below-a-file");
    let refused = start(&inside).await.expect_err("no directory can be there");
    assert!(refused.to_string().contains("below-a-file"), "{refused}");
}
