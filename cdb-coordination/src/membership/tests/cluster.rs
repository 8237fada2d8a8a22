//! A group of members on one emulator, and checks of several members.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cdb_client::transport::{
    HttpRequest, HttpResponse, SimulatedTime, Transport, TransportError, async_trait,
};
use cdb_client::{Bootstrap, ContainerClient, CosmosClient, MasterKey};
use cdb_emulator::Emulator;
use cdb_model::{Container, Document};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::Membership;
use crate::membership::{MemberDocument, MemberRecord, MemberState, MembershipConfig, SlotSet};

/// The heartbeat interval of these tests.
pub(super) const PERIOD: Duration = Duration::from_millis(400);

/// The longest wait, in simulated time.
const LIMIT: Duration = Duration::from_secs(30);

#[derive(Document, Serialize, Deserialize)]
#[document(type = "member", id = "{cluster}:{name}")]
pub(super) struct GroupMember {
    #[document(partition_key)]
    cluster: String,
    name: String,
    pub(super) record: MemberRecord,
}

impl MemberDocument for GroupMember {
    fn new(group: &str, name: &str, record: MemberRecord) -> Self {
        Self {
            cluster: group.to_owned(),
            name: name.to_owned(),
            record,
        }
    }

    fn into_record(self) -> MemberRecord {
        self.record
    }
}

#[derive(Container)]
pub(super) enum Members {
    Member(GroupMember),
}

pub(super) struct Cluster {
    pub(super) emulator: Arc<Emulator>,
    time: SimulatedTime,
}

impl Cluster {
    pub(super) async fn new() -> Self {
        let time = SimulatedTime::new();
        let emulator = Emulator::builder().clock(time.clock()).start();
        let emulator = time.in_real_time(emulator).await;
        Self {
            emulator: Arc::new(emulator.expect("the emulator starts")),
            time,
        }
    }

    /// The container, through a new client.
    pub(super) async fn container(&self) -> ContainerClient<Members> {
        self.open(Arc::default()).await
    }

    /// The container as documents of type `C`, through a client that fails once `is_dead` is set.
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
            .bootstrap("container", Bootstrap::CreateIfMissing)
            .await
            .expect("the container opens")
    }

    pub(super) async fn join(&self, name: &str) -> Membership {
        Membership::start::<GroupMember, _>(self.container().await, config(name))
    }

    /// Starts several members at once and waits until each of them sees all.
    pub(super) async fn joined(&self, names: &[&str]) -> Vec<Membership> {
        let mut members = Vec::new();
        for name in names {
            members.push(self.join(name).await);
        }
        eventually(async || members.iter().all(|member| sees(member, names))).await;
        members
    }

    /// Starts a member that can be killed.
    pub(super) async fn killable(&self, name: &str) -> Killable {
        let is_dead = Arc::<AtomicBool>::default();
        let container = self.open::<Members>(is_dead.clone()).await;
        Killable {
            member: Membership::start::<GroupMember, _>(container, config(name)),
            is_dead,
        }
    }
}

/// The network of a process. A dead process sends nothing.
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

/// A member that can be killed at any moment.
pub(super) struct Killable {
    pub(super) member: Membership,
    is_dead: Arc<AtomicBool>,
}

impl Killable {
    /// Kills the process like `kill -9`. Returns the member, because dropping its handle would
    /// leave the group.
    pub(super) fn kill(self) -> Membership {
        self.is_dead.store(true, Ordering::Relaxed);
        self.member
    }
}

/// Returns `true` if a process is a member and sees exactly these names.
pub(super) fn sees(member: &Membership, names: &[&str]) -> bool {
    let view = member.view();
    let mut names = names.to_vec();
    names.sort_unstable();
    view.state() == MemberState::Member && view.members() == names
}

/// The slots that at least one of these members serves.
pub(super) fn served<'a>(members: impl IntoIterator<Item = &'a Membership>) -> SlotSet {
    members
        .into_iter()
        .flat_map(|member| member.view().slots().iter().collect::<Vec<_>>())
        .collect()
}

/// Waits until a condition holds. Returns how long it took.
pub(super) async fn eventually(mut holds: impl AsyncFnMut() -> bool) -> Duration {
    let begun = Instant::now();
    while !holds().await {
        assert!(begun.elapsed() < LIMIT, "the condition never held");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    begun.elapsed()
}
