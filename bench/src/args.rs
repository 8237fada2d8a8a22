//! The command line.

use std::time::Duration;

use crate::workload::{WORKLOADS, Workload};
use cdb_bench_child::Peer;

/// The text for an invalid command line.
pub const USAGE: &str = "cargo xtask bench-orch [command] [options]

commands
  table         all workloads for all providers (the default)
  waiting       cost of an orchestration while many instances wait
  runtimes      throughput of several runtimes on one container
  partitions    cost and latency on many physical partitions, also of an idle cluster
  history       one turn on a long history
  throughput    64 dispatchers, 1,000 orchestrations in flight
  pickup        how soon a start from another process is picked up
  memory        memory of a runtime with 10,000 running instances
  instructions  instructions of the small steps, under valgrind
  all           everything

options
  --runs N          runs of each measurement; the table shows their medians (5)
  --only A,B        of the table: hello chain fan5 fan50 sub again backlog100 backlog300 idle faults
  --peer A,B        ours existing pg (what the machine has)
  --latency MS      round trip (3; 20 for `runtimes`)
  --dispatchers N   dispatchers of orchestrations, and as many of activities (2)
  --sizes A,B       the points of a curve
  --quick           fewer orchestrations, one run
  --sql             also prints every SQL text and how often it was asked
  --write           writes the result into docs, as a run without --only, --peer and --quick always does
  --print           never writes

With CDB_BENCH_STORED=1, ours stores every message before it is consumed (`HandOver::Never`).";

/// A parsed command line.
#[derive(Clone, Debug)]
pub struct Args {
    pub command: String,
    pub runs: usize,
    pub only: Option<Vec<String>>,
    pub peers: Option<Vec<Peer>>,
    pub latency: Option<Duration>,
    pub dispatchers: Option<u32>,
    pub sizes: Option<Vec<usize>>,
    pub quick: bool,
    pub sql: bool,
    write: Option<bool>,
}

impl Args {
    /// Reads a command line.
    pub fn parse(words: impl IntoIterator<Item = String>) -> Result<Self, String> {
        let mut args = Self {
            command: "table".to_owned(),
            runs: 5,
            only: None,
            peers: None,
            latency: None,
            dispatchers: None,
            sizes: None,
            quick: false,
            sql: false,
            write: None,
        };
        let mut words = words.into_iter();
        let mut runs = None;
        while let Some(word) = words.next() {
            let mut value = || {
                words
                    .next()
                    .ok_or_else(|| format!("`{word}` needs a value"))
            };
            match word.as_str() {
                "--runs" => runs = Some(number(&value()?)?.max(1)),
                "--only" => {
                    let flags = list(&value()?, |flag| {
                        workload(flag).map(|it| it.flag.to_owned())
                    })?;
                    args.only = Some(flags);
                }
                "--peer" => args.peers = Some(list(&value()?, peer)?),
                "--latency" => {
                    args.latency = Some(Duration::from_millis(number(&value()?)? as u64));
                }
                "--dispatchers" => args.dispatchers = u32::try_from(number(&value()?)?.max(1)).ok(),
                "--sizes" => args.sizes = Some(list(&value()?, number)?),
                "--quick" => args.quick = true,
                "--sql" => args.sql = true,
                "--write" => args.write = Some(true),
                "--print" => args.write = Some(false),
                option if option.starts_with("--") => {
                    return Err(format!("unknown option `{option}`"));
                }
                command => command.clone_into(&mut args.command),
            }
        }
        args.runs = runs.unwrap_or(if args.quick { 1 } else { 5 });
        Ok(args)
    }

    /// Returns `true` if the result is written into the document.
    pub fn writes(&self) -> bool {
        let whole =
            self.only.is_none() && self.peers.is_none() && self.sizes.is_none() && !self.quick;
        self.write.unwrap_or(whole)
    }

    /// The round trip.
    pub fn latency(&self) -> Duration {
        self.latency.unwrap_or(Duration::from_millis(3))
    }

    /// Dispatchers of each kind.
    pub fn dispatchers(&self) -> u32 {
        self.dispatchers.unwrap_or(2)
    }

    /// Returns `true` if a provider is measured.
    pub fn has(&self, peer: Peer) -> bool {
        self.peers
            .as_ref()
            .is_none_or(|peers| peers.contains(&peer))
    }

    /// The workloads of the table.
    pub fn workloads(&self) -> Vec<Workload> {
        let chosen = |workload: &&Workload| {
            let only = self.only.as_ref();
            only.is_none_or(|only| only.iter().any(|flag| flag == workload.flag))
        };
        WORKLOADS.iter().filter(chosen).copied().collect()
    }
}

fn number(text: &str) -> Result<usize, String> {
    text.replace(['_', ','], "")
        .parse()
        .map_err(|_| format!("`{text}` is no number"))
}

fn list<T>(text: &str, item: impl Fn(&str) -> Result<T, String>) -> Result<Vec<T>, String> {
    text.split(',').map(str::trim).map(item).collect()
}

fn workload(flag: &str) -> Result<Workload, String> {
    let found = WORKLOADS
        .iter()
        .find(|workload| workload.flag == flag)
        .copied();
    found.ok_or_else(|| format!("unknown workload `{flag}`"))
}

fn peer(flag: &str) -> Result<Peer, String> {
    let found = Peer::ALL.into_iter().find(|peer| peer.flag() == flag);
    found.ok_or_else(|| format!("unknown provider `{flag}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Args, String> {
        Args::parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn a_partial_table_is_written_only_on_request() {
        assert!(parse("").is_ok_and(|args| args.writes()));
        assert!(parse("--only hello,chain --peer ours").is_ok_and(|args| !args.writes()));
        assert!(parse("--only hello --write").is_ok_and(|args| args.writes()));
    }

    #[test]
    fn an_unknown_argument_is_named() {
        assert!(parse("--only helo").is_err_and(|error| error.contains("helo")));
        assert!(parse("--fast").is_err_and(|error| error.contains("--fast")));
    }
}
