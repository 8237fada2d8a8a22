//! Measures the guarantees of the work coordinator:
//!
//! ```text
//! cargo xtask measure-work order   # 1,000 streams of 100 messages, 8 processes, kills, pauses, 5 % faults, bad messages
//! cargo xtask measure-work order --streams 50 --messages 20 --kills 2 --pauses 1
//! cargo xtask measure-work flush   # requests of the strategies at 1,000 messages per second
//! cargo xtask measure-work latency   # time to claim and to complete, by strategy
//! cargo xtask measure-work throughput   # messages per second of 1, 2, 4 and 8 members
//! cargo xtask measure-work lease   # requests of idle members and time to take over, by lease time
//! cargo xtask measure-work partitions --count 1000   # the cost of idle partitions
//! ```
//!
//! The first command starts its processes with `worker`.

mod flush;
mod latency;
mod lease;
mod order;
mod partitions;
mod store;
mod throughput;
mod worker;

use std::collections::HashMap;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// `--name value` pairs.
struct Options(HashMap<String, String>);

impl Options {
    fn read(words: impl Iterator<Item = String>) -> Result<Self, Failure> {
        let words: Vec<String> = words.collect();
        let pairs = words.chunks(2).map(|pair| match pair {
            [name, value] if name.starts_with("--") => {
                Ok((name.trim_start_matches("--").to_owned(), value.clone()))
            }
            other => Err(format!("expected `--name value`, found {other:?}")),
        });
        Ok(Self(pairs.collect::<Result<_, _>>()?))
    }

    fn number(&self, name: &str, otherwise: u64) -> Result<u64, Failure> {
        match self.0.get(name) {
            Some(text) => Ok(text.parse()?),
            None => Ok(otherwise),
        }
    }

    fn text(&self, name: &str) -> Result<&str, Failure> {
        let text = self.0.get(name).ok_or(format!("--{name} is missing"))?;
        Ok(text)
    }
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let mut words = std::env::args().skip(1);
    let command = words.next().unwrap_or_default();
    let options = Options::read(words)?;
    match command.as_str() {
        "order" => order::run(&options).await,
        "worker" => worker::run(&options).await,
        "flush" => flush::run(&options).await,
        "latency" => latency::run(&options).await,
        "lease" => lease::run(&options).await,
        "partitions" => partitions::run(&options).await,
        "throughput" => throughput::run(&options).await,
        other => Err(format!(
            "`{other}` is not one of `order`, `flush`, `latency`, `lease`, `partitions` and `throughput`"
        )
        .into()),
    }
}
