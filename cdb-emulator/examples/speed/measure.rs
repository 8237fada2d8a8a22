//! The measurements: rates from many connections, latencies from one.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use cdb_emulator::WELL_KNOWN_KEY;

use crate::Failure;
use crate::wire::{CONTAINER, Call, Reply, Wire};

/// The indexing policy of the container.
pub(crate) const POLICY: &str = r#","indexingPolicy":{"indexingMode":"consistent","automatic":true,
    "includedPaths":[{"path":"/kind/?"},{"path":"/rank/?"}],"excludedPaths":[{"path":"/*"}],
    "compositeIndexes":[[{"path":"/kind","order":"ascending"},{"path":"/rank","order":"ascending"}]]}"#;
/// The number of documents per partition key.
const PER_KEY: u64 = 100;
/// The number of samples of a latency.
const SAMPLES: u64 = 301;

/// A server in a process of its own, which is killed on drop.
pub(crate) struct Server {
    child: Child,
    address: SocketAddr,
    /// The time from the start of the process to the first response.
    pub(crate) started: Duration,
}

impl Server {
    /// Starts this program as the server; in memory if the directory is empty.
    pub(crate) fn start(directory: &str) -> Result<Self, Failure> {
        let begun = Instant::now();
        let mut child = Command::new(std::env::current_exe()?)
            .args(["serve", directory])
            .stdout(Stdio::piped())
            .spawn()?;
        let said = child.stdout.take().ok_or("nothing is said")?;
        let mut line = String::new();
        BufReader::new(said).read_line(&mut line)?;
        let address = line.trim().trim_start_matches("http://");
        let mut server = Self {
            child,
            address: address.trim_end_matches('/').parse()?,
            started: Duration::ZERO,
        };
        let account = Call {
            method: "GET",
            signed: ("", ""),
            path: "",
            headers: &[],
            body: "",
        };
        expect(&server.connect()?.send(&account)?, 200)?;
        server.started = begun.elapsed();
        Ok(server)
    }

    pub(crate) fn connect(&self) -> Result<Wire, Failure> {
        Ok(Wire::connect(self.address, WELL_KNOWN_KEY)?)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Killing fails only if the process has ended.
        let _ = self.child.kill();
        // The exit status is not needed.
        let _ = self.child.wait();
    }
}

impl Wire {
    /// Deletes and recreates the container.
    pub(crate) fn redefine(&mut self, definition: &str) -> Result<(), Failure> {
        let delete = Call {
            method: "DELETE",
            signed: ("dbs", "dbs/db"),
            path: "dbs/db",
            headers: &[],
            body: "",
        };
        expect(&self.send(&delete)?, 204)?;
        Ok(self.define(definition)?)
    }
}

/// The rate and the latencies of requests.
pub(crate) struct Rate {
    pub(crate) per_second: f64,
    pub(crate) p50: Duration,
    pub(crate) p99: Duration,
}

/// Measures creates on many connections.
pub(crate) fn writes(server: &Server, connections: usize, time: Duration) -> Result<Rate, Failure> {
    rate(server, connections, time, |wire, worker, n| {
        let (key, id) = (format!("w{worker}-{}", n / PER_KEY), format!("d{n}"));
        expect(&wire.post(&key, &[], &document(&key, &id, n))?, 201)
    })
}

/// Measures reads of documents that [`writes`] has created.
pub(crate) fn reads(server: &Server, connections: usize, time: Duration) -> Result<Rate, Failure> {
    rate(server, connections, time, |wire, worker, n| {
        let n = n % PER_KEY;
        let key = format!("w{worker}-0");
        expect(&wire.item("GET", (&key, &format!("d{n}")), "")?, 200)
    })
}

fn rate(
    server: &Server,
    connections: usize,
    time: Duration,
    ask: impl Fn(&mut Wire, usize, u64) -> Result<(), Failure> + Sync,
) -> Result<Rate, Failure> {
    let begun = Instant::now();
    let work = |worker: usize| -> Result<Vec<Duration>, String> {
        let mut wire = server.connect().map_err(|error| error.to_string())?;
        let mut taken = Vec::new();
        for n in 0.. {
            let asked = Instant::now();
            ask(&mut wire, worker, n).map_err(|error| error.to_string())?;
            taken.push(asked.elapsed());
            if begun.elapsed() > time {
                break;
            }
        }
        Ok(taken)
    };
    let mut all = std::thread::scope(|scope| {
        let work = &work;
        let workers: Vec<_> = (0..connections)
            .map(|worker| scope.spawn(move || work(worker)))
            .collect();
        let mut all = Vec::new();
        for worker in workers {
            all.extend(worker.join().map_err(|_| "a worker panicked")??);
        }
        Ok::<_, Failure>(all)
    })?;
    let count = u32::try_from(all.len())?;
    all.sort_unstable();
    Ok(Rate {
        per_second: f64::from(count) / begun.elapsed().as_secs_f64(),
        p50: all[all.len() / 2],
        p99: all[all.len() * 99 / 100],
    })
}

/// Creates documents `from..to` in batches of one partition key each.
pub(crate) fn fill(server: &Server, from: u64, to: u64) -> Result<(), Failure> {
    let mut wire = server.connect()?;
    for first in (from..to).step_by(usize::try_from(PER_KEY)?) {
        let key = key(first);
        let operations: Vec<String> = (first..to.min(first + PER_KEY))
            .map(|n| {
                let document = document(&key, &format!("d{n}"), n);
                format!(r#"{{"operationType":"Create","resourceBody":{document}}}"#)
            })
            .collect();
        let headers = [
            ("x-ms-cosmos-is-batch-request", "True"),
            ("x-ms-cosmos-batch-atomic", "True"),
            ("prefer", "return=minimal"),
        ];
        let body = format!("[{}]", operations.join(","));
        expect(&wire.post(&key, &headers, &body)?, 200)?;
    }
    Ok(())
}

fn key(n: u64) -> String {
    format!("p{}", n / PER_KEY)
}

/// Returns a reproducible number below 2^32, evenly distributed.
fn scattered(n: u64) -> u64 {
    n.wrapping_mul(2_654_435_761) % (1 << 32)
}

fn document(key: &str, id: &str, n: u64) -> String {
    let (kind, rank, text) = (n % 7, scattered(n), "x".repeat(200));
    format!(r#"{{"id":"{id}","pk":"{key}","kind":"k{kind}","rank":{rank},"text":"{text}"}}"#)
}

/// The measured latencies.
pub(crate) const LATENCIES: [&str; 3] = [
    "point read",
    "query of one partition key",
    "ordered TOP 10 across partitions",
];

/// The medians of each.
pub(crate) type Latencies = [Duration; LATENCIES.len()];

/// Measures latencies on a container with documents `0..count`.
pub(crate) fn latencies(server: &Server, count: u64) -> Result<Latencies, Failure> {
    let mut wire = server.connect()?;
    let point = typical(|sample| {
        let n = scattered(sample) % count;
        expect(&wire.item("GET", (&key(n), &format!("d{n}")), "")?, 200)
    })?;
    let partition = typical(|sample| {
        let key = format!("[\"{}\"]", key(scattered(sample) % count));
        let sql = "SELECT * FROM c WHERE c.kind = 'k3' ORDER BY c.rank";
        let found = query(&mut wire, ("x-ms-documentdb-partitionkey", &key), sql)?;
        // Of 100 consecutive documents, 14 or 15 have this kind.
        if (14..=15).contains(&found) {
            Ok(())
        } else {
            Err(format!("{found} documents of a kind").into())
        }
    })?;
    let ranges = ranges(&mut wire)?;
    let top = typical(|_| {
        for range in &ranges {
            let sql = "SELECT TOP 10 c.id, c.rank FROM c ORDER BY c.rank DESC";
            let found = query(
                &mut wire,
                ("x-ms-documentdb-partitionkeyrangeid", range),
                sql,
            )?;
            if found != 10 {
                return Err(format!("{found} documents of 10").into());
            }
        }
        Ok(())
    })?;
    Ok([point, partition, top])
}

/// Returns the median time of a step.
fn typical(mut step: impl FnMut(u64) -> Result<(), Failure>) -> Result<Duration, Failure> {
    let mut taken = Vec::new();
    for sample in 0..SAMPLES {
        let begun = Instant::now();
        step(sample)?;
        taken.push(begun.elapsed());
    }
    Ok(median(&mut taken))
}

/// Returns the median.
pub(crate) fn median(values: &mut [Duration]) -> Duration {
    values.sort_unstable();
    values[values.len() / 2]
}

/// Returns the number of documents on the first page of a query.
fn query(wire: &mut Wire, scope: (&str, &str), sql: &str) -> Result<usize, Failure> {
    let headers = [
        scope,
        ("x-ms-documentdb-isquery", "True"),
        ("content-type", "application/query+json"),
    ];
    let reply = wire.post_anywhere(&headers, &format!(r#"{{"query":"{sql}"}}"#))?;
    expect(&reply, 200)?;
    Ok(reply.header("x-ms-item-count").parse()?)
}

/// Returns the ids of the physical partitions.
fn ranges(wire: &mut Wire) -> Result<Vec<String>, Failure> {
    let reply = wire.send(&Call {
        method: "GET",
        signed: ("pkranges", CONTAINER),
        path: &format!("{CONTAINER}/pkranges"),
        headers: &[],
        body: "",
    })?;
    expect(&reply, 200)?;
    let body: serde_json::Value = serde_json::from_slice(&reply.body)?;
    let ranges = body["PartitionKeyRanges"].as_array().ok_or("no ranges")?;
    let ids = ranges.iter().filter_map(|range| range["id"].as_str());
    Ok(ids.map(str::to_owned).collect())
}

fn expect(reply: &Reply, status: u16) -> Result<(), Failure> {
    if reply.status == status {
        return Ok(());
    }
    let body = String::from_utf8_lossy(&reply.body);
    Err(format!("{} instead of {status}: {body}", reply.status).into())
}
