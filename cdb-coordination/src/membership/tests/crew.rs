//! A container for members, and what is asked about several of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cdb_client::{
    Bootstrap, ContainerClient, CosmosClient, HttpRequest, HttpResponse, MasterKey, SimulatedTime,
    Transport, TransportError, async_trait,
};
use cdb_emulator::Emulator;
use cdb_model::{Container, Document};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::{MemberDocument, MemberRecord, Membership, MembershipConfig, SlotSet, Standing};

/// The time between two heartbeats in these tests.
pub(super) const PERIOD: Duration = Duration::from_millis(400);

/// How long anything may take, in simulated time.
const LIMIT: Duration = Duration::from_secs(30);

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
    time: SimulatedTime,
}

impl Crew {
    pub(super) async fn new() -> Self {
        let time = SimulatedTime::new();
        let emulator = time.in_real_time(Emulator::start()).await;
        Self {
            emulator: Arc::new(emulator.expect("the emulator starts")),
            time,
        }
    }

    /// The container, by a client that shares nothing with the others.
    pub(super) async fn ship(&self) -> ContainerClient<Ship> {
        self.open(Arc::default()).await
    }

    /// The container, as a program sees it that knows its documents as `C`, until the process is dead.
    pub(super) async fn open<C: Container>(&self, is_dead: Arc<AtomicBool>) -> ContainerClient<C> {
        let key = MasterKey::new(self.emulator.key()).expect("a key");
        let transport = Process {
            network: self.time.clone(),
            is_dead,
        };
        let client = CosmosClient::builder(self.emulator.endpoint())
            .credential(key)
            .transport(transport)
            .clock_of(&self.time)
            .build()
            .expect("a client");
        client
            .database("sea")
            .bootstrap("ship", Bootstrap::CreateIfMissing)
            .await
            .expect("the container opens")
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

    /// A member that can be killed.
    pub(super) async fn mortal(&self, name: &str) -> Mortal {
        let is_dead = Arc::<AtomicBool>::default();
        let ship = self.open::<Ship>(is_dead.clone()).await;
        Mortal {
            member: Membership::start::<CrewMember, _>(ship, config(name)),
            is_dead,
        }
    }
}

/// The network of a process: once it is dead, it sends nothing.
#[derive(Debug)]
struct Process {
    network: SimulatedTime,
    is_dead: Arc<AtomicBool>,
}

#[async_trait]
impl Transport for Process {
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, TransportError> {
        if self.is_dead.load(Ordering::Relaxed) {
            return std::future::pending().await;
        }
        self.network.send(request).await
    }
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
    is_dead: Arc<AtomicBool>,
}

impl Mortal {
    /// As `kill -9`: nothing that it does reaches the others. Returns the member, whose handle would leave when dropped.
    pub(super) fn kill(self) -> Membership {
        self.is_dead.store(true, Ordering::Relaxed);
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
pub(super) async fn eventually(mut holds: impl AsyncFnMut() -> bool) -> Duration {
    let begun = Instant::now();
    while !holds().await {
        assert!(begun.elapsed() < LIMIT, "it never came to hold");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    begun.elapsed()
}
