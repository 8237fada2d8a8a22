//! The cluster of a run, and what faults do to it.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use cdb_chaos::{CONTAINER, DATABASE, keep_trying};
use cdb_emulator::{
    Effect, Emulator, Failover, Fault as ServiceFault, Latency, OperationKind, ReplicaLag,
};
use cdb_provider::CosmosDBProvider;
use cdb_provider::record::Recorder;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep};

use crate::bank::BANK;
use crate::equal::EQUAL;
use crate::excuses::Scope;
use crate::faults::{Fault, FaultKind, LONGEST_OUTAGE, REGIONS, Sickness};
use crate::network::{BYSTANDER, Link, Network, SlowLoads};
use crate::node::{Node, NodeConfig, Shared, client, open};
use crate::profile::Profile;
use crate::random::Random;
use crate::run::RunConfig;
use crate::streams::STREAMS;
use crate::virtual_time::{elapsed, set_clock};
use crate::weathers::{Sort, Trouble};

/// The most physical partitions, so that splits end.
const MOST_PARTITIONS: usize = 16;

/// The time after the failover of a partition in which its work goes on.
const MOVE: Duration = Duration::from_secs(3);

/// The time that a node needs to start and to join the others.
const RESTART: Duration = Duration::from_secs(30);

/// How long a node is down during a deployment.
const REPLACED: Range<Duration> = Duration::from_secs(1)..Duration::from_secs(5);

/// The nodes and their service.
#[derive(Debug)]
pub(crate) struct Cluster {
    pub(crate) network: Arc<Network>,
    pub(crate) shared: Shared,
    pub(crate) profile: Profile,
    slots: Mutex<Vec<Slot>>,
    bystander: Mutex<Option<CosmosDBProvider>>,
    /// The physical partitions of each container.
    ranges: Mutex<[(&'static str, Vec<String>); 4]>,
    random: Mutex<Random>,
    /// The number of splits so far.
    splits: AtomicU64,
    /// The number of deployments so far, which the nodes have that started since.
    deployed: AtomicU32,
    /// The times of deployments, since the start.
    deployments: Mutex<Vec<Range<Duration>>>,
}

/// The place of a node.
#[derive(Debug, Default)]
struct Slot {
    node: Option<Node>,
    /// The last deployment before the node started.
    deployed: u32,
    /// Whether the node is killed, paused or cut off now.
    impaired: bool,
}

impl Cluster {
    /// Starts the service and all nodes.
    pub(crate) async fn start(
        config: &RunConfig,
        profile: Profile,
        recorder: Option<Recorder>,
    ) -> Result<Arc<Self>, String> {
        let (seed, trace) = (config.seed, config.trace);
        let emulator = Emulator::builder()
            .physical_partitions(profile.partitions)
            .regions(REGIONS)
            .partition_failover(profile.partition_failover)
            .seed(seed)
            .start_in_process()
            .map_err(|error| error.to_string())?;
        let ranges: Vec<String> = (0..profile.partitions).map(|it| it.to_string()).collect();
        let cluster = Arc::new(Self {
            network: Network::new(emulator, seed, profile.distance),
            shared: Shared {
                recorder,
                ..Shared::default()
            },
            profile,
            slots: Mutex::default(),
            bystander: Mutex::default(),
            ranges: Mutex::new([CONTAINER, STREAMS, BANK, EQUAL].map(|it| (it, ranges.clone()))),
            random: Mutex::new(Random::new(seed, "cluster")),
            splits: AtomicU64::new(0),
            deployed: AtomicU32::new(0),
            deployments: Mutex::default(),
        });
        if trace {
            cluster.network.trace().print();
        }
        for number in 0..profile.nodes {
            let node = cluster.start_node(number, 0).await?;
            cluster.slots.lock().await.push(Slot {
                node: Some(node),
                ..Slot::default()
            });
        }
        if profile.bystander && profile.node.members {
            let client = client(&cluster.network, &cluster.network.connect(BYSTANDER));
            let opened = keep_trying(|| open(&client, BYSTANDER, profile.node)).await?;
            *cluster.bystander.lock().await = Some(opened.0);
        }
        Ok(cluster)
    }

    async fn start_node(&self, slot: usize, clock_ahead: i64) -> Result<Node, String> {
        let number = node_number(slot);
        set_clock(number, clock_ahead);
        let (network, shared) = (&self.network, &self.shared);
        let config = NodeConfig {
            idle: slot >= self.profile.nodes - self.profile.idle,
            ..self.profile.node
        };
        let deployed = self.deployed.load(Ordering::Relaxed);
        Node::start(network, number, config, clock_ahead, deployed, shared).await
    }

    /// Replaces every node by one with the orchestrations of the next deployment, one after the
    /// other. Returns the number of the deployment.
    pub(crate) async fn deploy(&self) -> u32 {
        let began = elapsed();
        let deployed = self.deployed.fetch_add(1, Ordering::Relaxed) + 1;
        for node in 0..self.profile.nodes {
            while self.slots.lock().await[node].deployed < deployed {
                let down = self.random.lock().await.duration(REPLACED);
                self.kill(node, down, 0).await;
                sleep(Duration::from_secs(1)).await;
            }
        }
        let lasted = began..elapsed() + RESTART;
        self.deployments.lock().await.push(lasted);
        deployed
    }

    /// Returns the times of deployments, since the start.
    pub(crate) async fn deployments(&self) -> Vec<Range<Duration>> {
        self.deployments.lock().await.clone()
    }

    /// Waits until no node is killed, paused or cut off.
    pub(crate) async fn healthy(&self) {
        while self.slots.lock().await.iter().any(|slot| slot.impaired) {
            sleep(Duration::from_secs(1)).await;
        }
    }

    /// Applies faults at their times.
    pub(crate) async fn suffer(self: Arc<Self>, faults: Vec<Fault>) {
        let start = Instant::now();
        for fault in faults {
            tokio::time::sleep_until(start + fault.at).await;
            self.network.note(fault.to_string());
            if let Some((scope, lasting)) = fault.kind.delays() {
                self.excuse(scope, lasting, fault.to_string());
            }
            let cluster = self.clone();
            tokio::spawn(async move { cluster.apply(fault.kind).await });
        }
    }

    async fn apply(&self, kind: FaultKind) {
        match kind {
            FaultKind::Kill {
                node,
                down,
                clock_ahead,
            } => self.kill(node, down, clock_ahead).await,
            FaultKind::Clock { node, ahead } => set_clock(node_number(node), ahead),
            FaultKind::Pause { node, lasting } => {
                let until = Instant::now() + lasting;
                self.impair(node, Link::Paused(until), lasting).await;
            }
            FaultKind::Cut { node, lasting } => self.impair(node, Link::Cut, lasting).await,
            FaultKind::Duplicates { percent, lasting } => {
                self.network.set_duplicates(u64::from(percent));
                sleep(lasting).await;
                self.network.set_duplicates(0);
            }
            FaultKind::Split { lasting } => self.split(lasting).await,
            FaultKind::Sort {
                sort,
                trouble,
                lasting,
            } => self.trouble(sort, trouble, lasting).await,
            FaultKind::SlowLoads {
                node,
                delay,
                lasting,
            } => self.network.slow_loads(SlowLoads {
                node: node.map(node_number),
                delay,
                until: Instant::now() + lasting,
            }),
            service => self.impair_service(service).await,
        }
    }

    async fn impair_service(&self, kind: FaultKind) {
        let emulator = &self.network.emulator;
        match kind {
            FaultKind::SickPartition { sickness, lasting } => {
                for (container, ranges) in self.ranges.lock().await.iter() {
                    let range = &ranges[self.random.lock().await.below(ranges.len())];
                    let fault = ServiceFault::always(sickness.effect());
                    let fault = fault.in_container(DATABASE, container);
                    let scope = Scope::Partition(container, range.clone());
                    self.excuse(scope, lasting, format!("{sickness:?}"));
                    emulator.inject(fault.on_partition(range).lasting(lasting));
                }
            }
            FaultKind::PartitionFailover {
                to,
                sickness,
                outage,
                lasting,
            } => {
                self.fail_over_partitions(to, sickness, outage, lasting)
                    .await;
            }
            FaultKind::Requests { percent, lasting } => {
                for fault in ServiceFault::in_five_ways(f64::from(percent) / 100.0) {
                    emulator.inject(fault.lasting(lasting));
                }
            }
            FaultKind::Rights { lasting } => {
                let refused = ServiceFault::always(Effect::error(403, 5302));
                emulator.inject(refused.lasting(lasting));
            }
            FaultKind::Throttled { lasting } => {
                let throttled = Sickness::Throttled.effect();
                let throttled = ServiceFault::always(throttled).on(OperationKind::Create);
                emulator.inject(throttled.lasting(lasting));
            }
            FaultKind::Failover { document_after } => {
                let failover = Failover {
                    to: None,
                    document_after,
                    dns_after: Some(document_after * 2),
                };
                emulator
                    .failover_with(&failover)
                    .expect("there are two regions");
            }
            FaultKind::Lag { behind, lasting } => {
                let set = |lag| {
                    let set = emulator.change(|settings| settings.replica_lag(lag));
                    set.expect("the lag is valid");
                };
                set(Some(ReplicaLag::time(behind).at_most(1000)));
                sleep(lasting).await;
                set(None);
            }
            _ => {}
        }
    }

    /// Lets requests of one sort be in trouble.
    async fn trouble(&self, sort: Sort, trouble: Trouble, lasting: Duration) {
        let fault = trouble.of(sort).lasting(lasting);
        if let Trouble::Lost { .. } = trouble {
            self.network.emulator.inject(fault);
            return;
        }
        for (container, ranges) in self.ranges.lock().await.iter() {
            let range = &ranges[self.random.lock().await.below(ranges.len())];
            let scope = Scope::Partition(container, range.clone());
            let what = format!("{sort:?} {trouble:?}");
            let excuses = &self.shared.handling.excuses;
            match trouble {
                Trouble::Slow { .. } => excuses.note_slow(scope, lasting, what),
                _ => excuses.note(scope, lasting, what),
            }
            let fault = fault.clone().in_container(DATABASE, container);
            self.network.emulator.inject(fault.on_partition(range));
        }
    }

    /// Lets a partition of each container be sick in one region, and moves its writes to the other.
    async fn fail_over_partitions(
        &self,
        to: &str,
        sickness: Sickness,
        outage: Duration,
        lasting: Duration,
    ) {
        let emulator = &self.network.emulator;
        let mut moving = Vec::new();
        for (container, ranges) in self.ranges.lock().await.iter() {
            let range = &ranges[self.random.lock().await.below(ranges.len())];
            let fault = ServiceFault::always(sickness.effect()).on_partition(range);
            let fault = fault.in_container(DATABASE, container);
            for region in REGIONS.iter().filter(|region| **region != to) {
                emulator.inject(fault.clone().in_region(*region).lasting(lasting));
            }
            let scope = Scope::Partition(container, range.clone());
            self.excuse(scope, outage + MOVE, format!("fails over to {to}"));
            moving.push((*container, range.clone()));
        }
        sleep(outage).await;
        for (container, range) in moving {
            let moved = emulator.fail_over_partition(DATABASE, container, &range, to);
            if let Err(split) = moved {
                self.network.note(split.to_string());
            }
        }
    }

    /// Returns the number of splits so far.
    pub(crate) fn splits(&self) -> u64 {
        self.splits.load(Ordering::Relaxed)
    }

    async fn split(&self, lasting: Duration) {
        self.splits.fetch_add(1, Ordering::Relaxed);
        for (container, ranges) in self.ranges.lock().await.iter_mut() {
            if ranges.len() >= MOST_PARTITIONS {
                continue;
            }
            let parent = self.random.lock().await.below(ranges.len());
            let parent = ranges.swap_remove(parent);
            let emulator = &self.network.emulator;
            let children = emulator.split_slowly(DATABASE, container, &parent, lasting);
            ranges.extend(children.expect("the partition exists"));
        }
    }

    /// Marks a node as impaired, unless it is impaired already or no healthy node would remain.
    async fn begin(&self, node: usize, longest: &mut Duration) -> bool {
        let mut slots = self.slots.lock().await;
        let healthy = slots.iter().filter(|slot| !slot.impaired).count();
        if slots[node].impaired || (healthy == 1 && slots.len() > 1) {
            return false;
        }
        if slots.len() == 1 {
            *longest = (*longest).min(LONGEST_OUTAGE);
        }
        slots[node].impaired = true;
        true
    }

    fn excuse(&self, scope: Scope, lasting: Duration, what: impl Into<String>) {
        self.shared.handling.excuses.note(scope, lasting, what);
    }

    /// Notes that a node is impaired. The only node delays everything.
    fn excuse_node(&self, node: usize, lasting: Duration, what: &str) {
        let number = node_number(node);
        let scope = match self.profile.nodes {
            1 => Scope::Everything,
            _ => Scope::Node(number),
        };
        self.excuse(scope, lasting + RESTART, format!("node {number} is {what}"));
    }

    async fn kill(&self, node: usize, mut down: Duration, clock_ahead: i64) {
        if !self.begin(node, &mut down).await {
            return;
        }
        self.excuse_node(node, down, "killed");
        self.shared.handling.forget(node_number(node));
        self.shared.limited.forget(node_number(node));
        let killed = self.slots.lock().await[node].node.take();
        if let Some(killed) = killed {
            killed.kill().await;
        }
        sleep(down).await;
        // A deployment that begins during the start replaces the node again.
        let deployed = self.deployed.load(Ordering::Relaxed);
        let started = loop {
            match self.start_node(node, clock_ahead).await {
                Ok(started) => break started,
                Err(error) => self
                    .network
                    .note(format!("node {node} cannot start: {error}")),
            }
        };
        let mut slots = self.slots.lock().await;
        slots[node].node = Some(started);
        slots[node].deployed = deployed;
        slots[node].impaired = false;
    }

    async fn impair(&self, node: usize, link: Link, mut lasting: Duration) {
        if !self.begin(node, &mut lasting).await {
            return;
        }
        self.excuse_node(node, lasting, &format!("{link:?}"));
        let set = async |link| {
            if let Some(node) = &self.slots.lock().await[node].node {
                node.set_link(link);
            }
        };
        set(link).await;
        sleep(lasting).await;
        set(Link::Up).await;
        self.slots.lock().await[node].impaired = false;
    }
}

/// Returns the number of a node in traces, where they begin with 1.
fn node_number(slot: usize) -> u32 {
    u32::try_from(slot).unwrap_or(0) + 1
}

impl Sickness {
    fn effect(self) -> Effect {
        match self {
            Self::Throttled => Effect::throttled(Duration::from_millis(50)),
            Self::Unavailable => Effect::error(503, 0),
            Self::Slow => Effect::Delay(Latency::from(Duration::from_secs(3))),
            Self::Silent => Effect::Silence,
        }
    }
}
