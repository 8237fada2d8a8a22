//! Measures membership on an embedded emulator: which slots move when a member joins, the cost of
//! heartbeats, and how long the slots of a killed member are not served. Prints the table of
//! the README of this crate.
//!
//! Each member has its own client. A member that is killed has its own Tokio runtime, which is
//! dropped without finishing its tasks.

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cdb_client::{Bootstrap, CosmosClient, MasterKey};
use cdb_coordination::Membership;
use cdb_coordination::membership::{
    MemberDocument, MemberRecord, MemberState, MembershipConfig, SlotSet,
};
use cdb_emulator::Emulator;
use cdb_model::{Container, Document};
use serde::{Deserialize, Serialize};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const HEARTBEAT: Duration = Duration::from_secs(1);
/// How many heartbeats are counted.
const COUNTED: u32 = 10;
/// How many members are killed per size of the group. The longest time counts.
const KILLS: u32 = 5;

#[derive(Document, Serialize, Deserialize)]
#[document(type = "member", id = "{group}:{name}")]
struct Member {
    #[document(partition_key)]
    group: String,
    name: String,
    record: MemberRecord,
}

impl MemberDocument for Member {
    fn new(group: &str, name: &str, record: MemberRecord) -> Self {
        Self {
            group: group.to_owned(),
            name: name.to_owned(),
            record,
        }
    }

    fn into_record(self) -> MemberRecord {
        self.record
    }
}

#[derive(Container)]
enum Members {
    Member(Member),
}

async fn join(emulator: &Emulator, group: &str, name: &str) -> Result<Membership> {
    let client = CosmosClient::builder(emulator.endpoint())
        .credential(MasterKey::new(emulator.key())?)
        .build()?;
    let container = client
        .database("measure")
        .bootstrap::<Members>("members", Bootstrap::CreateIfMissing)
        .await?;
    let config = MembershipConfig {
        group: group.to_owned(),
        heartbeat: HEARTBEAT,
        ..MembershipConfig::named(name)
    };
    Ok(Membership::start::<Member, _>(container, config))
}

/// Waits until a condition holds. Returns when it did.
async fn until(holds: impl Fn() -> bool) -> Instant {
    while !holds() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    Instant::now()
}

fn sees(member: &Membership, count: usize) -> bool {
    let view = member.view();
    view.state() == MemberState::Member && view.members().len() == count
}

fn served(members: &[Membership]) -> SlotSet {
    let views = members.iter().map(Membership::view);
    views
        .flat_map(|view| view.slots().iter().collect::<Vec<_>>())
        .collect()
}

/// Starts a member that can be killed, with its runtime.
async fn killable(
    emulator: &Arc<Emulator>,
    group: &str,
    name: String,
) -> Result<(tokio::runtime::Runtime, Membership)> {
    let (emulator, group) = (emulator.clone(), group.to_owned());
    tokio::task::spawn_blocking(move || {
        let place = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()?;
        let member = place.block_on(join(&emulator, &group, &name))?;
        Ok((place, member))
    })
    .await?
}

fn shares(members: &[Membership]) -> Vec<SlotSet> {
    let views = members.iter().map(Membership::view);
    views.map(|view| view.slots().clone()).collect()
}

/// The measurements for one size of the group.
#[derive(Default)]
struct Seen {
    /// How many slots each new member took from the others.
    moved: Vec<u32>,
    requests: u64,
    /// The longest times.
    removed: Duration,
    unserved: Duration,
}

impl Seen {
    fn line(&self, size: u32) -> String {
        let heartbeats = |time: Duration| time.as_secs_f64() / HEARTBEAT.as_secs_f64();
        let times = u32::try_from(self.moved.len()).unwrap_or(u32::MAX);
        let mean = f64::from(self.moved.iter().sum::<u32>()) / f64::from(times);
        let beats = COUNTED * size;
        format!(
            "| {size} | {} | {mean:.0}, {} | {:.2} | {:.1} | {:.1} |",
            256 / size,
            self.moved.iter().max().unwrap_or(&0),
            f64::from(u32::try_from(self.requests).unwrap_or(u32::MAX)) / f64::from(beats),
            heartbeats(self.removed),
            heartbeats(self.unserved),
        )
    }
}

/// Kills members of a group of this size, one after the other.
async fn measure(emulator: &Arc<Emulator>, size: u32) -> Result<Seen> {
    let group = format!("group-{size}");
    let (few, all) = (usize::try_from(size - 1)?, usize::try_from(size)?);
    let mut others = Vec::new();
    for n in 1..size {
        others.push(join(emulator, &group, &format!("member-{n}")).await?);
    }
    let each_sees = |count| others.iter().all(|member| sees(member, count));
    let mut seen = Seen::default();
    for kill in 0..KILLS {
        until(|| each_sees(few)).await;
        let before = shares(&others);
        let (place, member) = killable(emulator, &group, format!("killable-{kill}")).await?;
        until(|| sees(&member, all) && each_sees(all)).await;
        let after = shares(&others);
        let moved = before
            .iter()
            .zip(&after)
            .map(|(before, after)| before.missing_in(after));
        seen.moved.push(moved.sum());
        if kill == 0 {
            emulator.reset_requests();
            tokio::time::sleep(HEARTBEAT * COUNTED).await;
            seen.requests = emulator.requests().data_requests();
        }
        // At a different moment between two heartbeats for each kill.
        tokio::time::sleep(HEARTBEAT * kill / KILLS).await;
        let killed = Instant::now();
        place.shutdown_background();
        let noticed = until(|| others.iter().any(|member| sees(member, few))).await;
        let whole = until(|| served(&others).is_all()).await;
        seen.removed = seen.removed.max(noticed - killed);
        seen.unserved = seen.unserved.max(whole - noticed);
    }
    for member in &others {
        member.leave().await;
    }
    Ok(seen)
}

#[tokio::main]
async fn main() -> Result<()> {
    let emulator = Arc::new(Emulator::start().await?);
    println!(
        "| members | 256/n | slots moved by a new member: mean, most | requests per heartbeat and member | killed to removed, in heartbeats | removed to all served, in heartbeats |"
    );
    println!("|---|---|---|---|---|---|");
    for size in [2, 4, 8, 16] {
        println!("{}", measure(&emulator, size).await?.line(size));
    }
    Ok(())
}
