//! A container for members, and what is asked about several of them.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cdb_client::{Bootstrap, ContainerClient, CosmosClient, MasterKey};
use cdb_emulator::Emulator;
use cdb_model::{Container, Document};
use serde::{Deserialize, Serialize};

use crate::{MemberDocument, MemberRecord, Membership, MembershipConfig, SlotSet, Standing};

/// The time between two heartbeats in these tests: short, but long beside the pauses of a busy machine.
pub(super) const PERIOD: Duration = Duration::from_millis(400);

/// How long anything may take. Nothing waits that long unless it fails.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Document, Serialize, Deserialize)]
#[document(type = "member", id = "{crew}:{name}")]
pub(super) struct CrewMember {
    #[document(partition_key)]
    crew: String,
    name: String,
    pub(super) record: MemberRecord,
}

impl MemberDocument for CrewMember {
    fn new(group: &str, name: &str, record: MemberRecord) -> Self {
        Self {
            crew: group.to_owned(),
            name: name.to_owned(),
            record,
        }
    }

    fn into_record(self) -> MemberRecord {
        self.record
    }
}

#[derive(Container)]
#[container(partition_key = "/crew")]
pub(super) enum Ship {
    Member(CrewMember),
}

pub(super) struct Crew {
    pub(super) emulator: Arc<Emulator>,
}

impl Crew {
    pub(super) async fn new() -> Self {
        let emulator = Emulator::start().await.expect("the emulator starts");
        Self {
            emulator: Arc::new(emulator),
        }
    }

    /// The container, by a client that shares nothing with the others.
    pub(super) async fn ship(&self) -> ContainerClient<Ship> {
        open(&self.emulator).await
    }

    pub(super) async fn join(&self, name: &str) -> Membership {
        Membership::start::<CrewMember, _>(self.ship().await, config(name))
    }

    /// Several members that start at once, each on the roster and each seeing all of them.
    pub(super) async fn joined(&self, names: &[&str]) -> Vec<Membership> {
        let mut members = Vec::new();
        for name in names {
            members.push(self.join(name).await);
        }
        eventually(async || members.iter().all(|member| sees(member, names))).await;
        members
    }

    /// A member in a runtime of its own, which can be killed.
    pub(super) async fn mortal(&self, name: &str) -> Mortal {
        let emulator = self.emulator.clone();
        let config = config(name);
        let started = tokio::task::spawn_blocking(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(1)
                .enable_all()
                .build()
                .expect("a runtime");
            let member = runtime.block_on(async {
                Membership::start::<CrewMember, _>(open(&emulator).await, config)
            });
            Mortal { member, runtime }
        });
        started.await.expect("it starts")
    }
}

/// The container, as a program sees it that knows its documents as `C`.
pub(super) async fn open<C: Container>(emulator: &Emulator) -> ContainerClient<C> {
    let key = MasterKey::new(emulator.key()).expect("a key");
    let client = CosmosClient::builder(emulator.endpoint())
        .credential(key)
        .build()
        .expect("a client");
    client
        .database("sea")
        .bootstrap("ship", Bootstrap::CreateIfMissing)
        .await
        .expect("the container opens")
}

fn config(name: &str) -> MembershipConfig {
    MembershipConfig {
        heartbeat: PERIOD,
        ..MembershipConfig::named(name)
    }
}

/// A member that can die at any moment, in the middle of whatever it does.
pub(super) struct Mortal {
    pub(super) member: Membership,
    runtime: tokio::runtime::Runtime,
}

impl Mortal {
    /// As `kill -9`: nothing of it runs any more. What it believed last is returned, for there is nobody to change it.
    pub(super) fn kill(self) -> Membership {
        self.runtime.shutdown_background();
        self.member
    }
}

/// Whether a member is one, and sees exactly these.
pub(super) fn sees(member: &Membership, names: &[&str]) -> bool {
    let view = member.view();
    let mut names = names.to_vec();
    names.sort_unstable();
    view.standing() == Standing::Member && view.members() == names
}

/// The slots that at least one of these serves.
pub(super) fn served<'a>(members: impl IntoIterator<Item = &'a Membership>) -> SlotSet {
    members
        .into_iter()
        .flat_map(|member| member.view().slots().iter().collect::<Vec<_>>())
        .collect()
}

/// Waits until something holds. Returns how long it took.
pub(super) async fn eventually<F: Future<Output = bool>>(mut holds: impl FnMut() -> F) -> Duration {
    let begun = Instant::now();
    while !holds().await {
        assert!(begun.elapsed() < PATIENCE, "it never came to hold");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    begun.elapsed()
}
