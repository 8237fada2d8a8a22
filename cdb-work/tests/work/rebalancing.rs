//! Coordinators on a real membership: members join, leave, are killed and paused, in simulated
//! time. The order of each stream holds, and every effect is written once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cdb_client::ContainerClient;
use cdb_client::transport::async_trait;
use cdb_coordination::membership::{LeaseProvider, MembershipConfig, SlotSet};
use cdb_coordination::{HandlerError, Membership};
use cdb_emulator::Fault;
use cdb_model::operation::BulkBatch;
use cdb_model::{Document as _, Patch, Query};
use cdb_work::{
    Completed, DeliveryReason, Partitions, RunConfig, Work, WorkConfig, WorkContext,
    WorkCoordinator, WorkHandlers, WorkMember, WorkRun,
};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::test_env::{
    Applied, Process, Shop, Switched, Tally, TallyKey, TestEnv, config, message,
};

const HEARTBEAT: Duration = Duration::from_millis(400);

const MAX_ATTEMPTS: u32 = 6;

/// The longest run, in simulated time.
const LIMIT: Duration = Duration::from_secs(200);

/// What the handlers of all members have seen.
#[derive(Clone, Default)]
struct Witness {
    /// The first time of each message.
    seen: Arc<Mutex<BTreeMap<(String, String), Instant>>>,
    /// Refused effects: a broken order or a second effect.
    violations: Arc<Mutex<Vec<String>>>,
    taken_over: Arc<Mutex<usize>>,
}

impl Witness {
    /// Writes the effect of a message, if the message before it was the last one applied.
    async fn handle(
        self,
        work: WorkContext,
        process: watch::Sender<Process>,
    ) -> Result<Completed, HandlerError> {
        let message = work.message();
        if message.kind == "kill" {
            process.send_replace(Process::Dead);
            std::future::pending::<()>().await;
        }
        let key = (message.stream.clone(), message.message_id.clone());
        self.seen
            .lock()
            .unwrap()
            .entry(key)
            .or_insert_with(Instant::now);
        if work.delivery() == DeliveryReason::TakenOver {
            *self.taken_over.lock().unwrap() += 1;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
        let number: u64 = message.message_id.parse()?;
        let patch = Patch::<Tally>::new()
            .set(Tally::LAST, number)
            .incr(Tally::COUNT, 1)
            .when(Tally::LAST.eq(number - 1));
        let mut effects = work.effects::<Shop>();
        effects.add(patch.at(&TallyKey::new(&*message.partition, &*message.stream)))?;
        effects.add(
            Applied {
                partition: message.partition.clone(),
                unique: uuid::Uuid::new_v4().to_string(),
                stream: message.stream.clone(),
                message_id: message.message_id.clone(),
            }
            .create(),
        )?;
        Ok(work.done().with_effects(&effects)?)
    }

    fn handlers(&self, process: &watch::Sender<Process>) -> WorkHandlers {
        let (witness, violations) = (self.clone(), self.violations.clone());
        let process = process.clone();
        WorkHandlers::new()
            .otherwise(move |work| witness.clone().handle(work, process.clone()))
            .on_failure(move |failure| {
                if failure.reason.contains("refused; the message") {
                    violations.lock().unwrap().push(format!("{failure:?}"));
                }
            })
    }
}

/// A member of the group: a process with a membership, a coordinator and a run.
struct Member {
    membership: Arc<Membership>,
    work: WorkCoordinator,
    run: WorkRun,
    process: watch::Sender<Process>,
}

impl Member {
    async fn leave(self) {
        self.run.stop().await.unwrap();
        self.work.shutdown().await.unwrap();
        self.membership.leave().await;
    }

    /// Ends the process without a farewell. Returns what must not be dropped, because dropping it
    /// would say farewell.
    fn kill(self) -> Self {
        self.process.send_replace(Process::Dead);
        self
    }
}

fn settings() -> WorkConfig {
    let mut settings = config();
    settings.partitions = Partitions::new(16).unwrap();
    settings.retry.max_attempts = MAX_ATTEMPTS;
    settings
}

struct NoSlots;

#[async_trait]
impl LeaseProvider for NoSlots {
    async fn slots(&self) -> SlotSet {
        SlotSet::NONE
    }
}

/// Streams with messages, and the members that handle them.
struct Cluster {
    env: TestEnv,
    sender: WorkCoordinator,
    members: BTreeMap<usize, Member>,
    dead: Vec<Member>,
    witness: Witness,
    names: usize,
    streams: usize,
    messages: usize,
}

impl Cluster {
    async fn start(streams: usize, members: usize) -> Option<Self> {
        let env = TestEnv::start_in_simulated_time().await?;
        let sender = env.open_with(settings(), Arc::new(NoSlots)).await;
        let mut bulk = BulkBatch::<Shop>::new();
        for stream in 0..streams {
            let partitions = settings().partitions;
            let stream = stream.to_string();
            let partition = partitions.name(partitions.of_stream(&stream));
            let (last, count) = (0, 0);
            bulk.add(
                Tally {
                    partition,
                    stream,
                    last,
                    count,
                }
                .create(),
            )
            .unwrap();
        }
        for created in env.shop.execute_bulk(&bulk).await {
            created.unwrap();
        }
        let mut cluster = Self {
            env,
            sender,
            members: BTreeMap::new(),
            dead: Vec::new(),
            witness: Witness::default(),
            names: 0,
            streams,
            messages: 0,
        };
        for _ in 0..members {
            cluster.join().await;
        }
        Some(cluster)
    }

    /// Starts another member. Returns its number.
    async fn join(&mut self) -> usize {
        let (process, runs) = watch::channel(Process::Runs);
        let network = Switched {
            network: self.env.time().unwrap().clone(),
            process: runs,
        };
        let container: ContainerClient<Shop> = self.env.over(network);
        let number = self.names;
        self.names += 1;
        let group = MembershipConfig {
            heartbeat: HEARTBEAT,
            ..MembershipConfig::named(format!("member-{number}"))
        };
        let membership = Membership::start::<WorkMember, Work>(container.view(), group);
        let membership = Arc::new(membership);
        let work = loop {
            // Every request may fail, also the first ones.
            let slots = membership.clone();
            match WorkCoordinator::open(container.view(), slots, settings()).await {
                Err(error) if error.is_transient() => {}
                opened => break opened.unwrap(),
            }
        };
        let run = work.run(RunConfig::default(), self.witness.handlers(&process));
        let member = Member {
            membership,
            work,
            run,
            process,
        };
        self.members.insert(number, member);
        number
    }

    fn kill(&mut self, number: usize) {
        let member = self.members.remove(&number).expect("it runs");
        self.dead.push(member.kill());
    }

    fn pause(&self, number: usize, process: Process) {
        self.members[&number].process.send_replace(process);
    }

    /// Stores further messages of every stream, again and again until they are stored.
    async fn store(&mut self, messages: usize) {
        for number in self.messages + 1..=self.messages + messages {
            for stream in 0..self.streams {
                let new = message(&stream.to_string(), number);
                while self.sender.immediate().store(new.clone()).await.is_err() {}
            }
        }
        self.messages += messages;
    }

    async fn tallies(&self) -> Vec<Tally> {
        let tallies = Query::<Tally>::across_partitions();
        loop {
            if let Ok(found) = self.env.shop.query(tallies.clone()).all().await {
                return found.into_iter().map(|row| row.document).collect();
            }
        }
    }

    /// Waits until all messages are applied, and checks that each was applied once and in order.
    async fn finish(self) {
        let begun = Instant::now();
        let expected = u64::try_from(self.messages).unwrap();
        loop {
            let tallies = self.tallies().await;
            if tallies.iter().all(|tally| tally.last >= expected) {
                break;
            }
            assert!(begun.elapsed() < LIMIT, "not finished: {tallies:?}");
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        if let Some(emulator) = self.env.emulator() {
            emulator.clear_faults();
        }
        for tally in self.tallies().await {
            assert_eq!((tally.last, tally.count), (expected, expected), "{tally:?}");
        }
        let mut applied: Vec<_> = self.env.applied().await.into_iter().collect();
        applied.sort_by(|one, other| {
            (&one.stream, &one.message_id).cmp(&(&other.stream, &other.message_id))
        });
        applied.dedup_by(|one, other| {
            (&one.stream, &one.message_id) == (&other.stream, &other.message_id)
        });
        assert_eq!(applied.len(), self.streams * self.messages);
        let violations = self.witness.violations.lock().unwrap().clone();
        assert!(violations.is_empty(), "{violations:?}");
        for member in self.members.into_values() {
            member.leave().await;
        }
        // Dropping a dead process would say farewell.
        std::mem::forget(self.dead);
    }
}

#[tokio::test(start_paused = true)]
async fn members_that_join_and_leave_move_streams_without_loss_or_disorder() {
    let mut cluster = or_skip!(Cluster::start(48, 2).await);
    cluster.store(3).await;
    let third = cluster.join().await;
    cluster.store(3).await;
    cluster.members.remove(&0).unwrap().leave().await;
    cluster.store(3).await;
    cluster.join().await;
    cluster.store(3).await;
    cluster.members.remove(&third).unwrap().leave().await;
    cluster.finish().await;
}

#[tokio::test(start_paused = true)]
async fn members_that_are_killed_and_paused_lose_no_message_and_apply_none_twice() {
    for seed in 1..=2_usize {
        let mut cluster = or_skip!(Cluster::start(32, 4).await);
        if let Some(emulator) = cluster.env.emulator() {
            for fault in Fault::in_five_ways(0.05) {
                emulator.inject(fault);
            }
        }
        cluster.store(4).await;
        for round in 0..4 {
            let members: Vec<usize> = cluster.members.keys().copied().collect();
            let chosen = members[(seed * 7 + round * 5) % members.len()];
            let other = members[(seed * 7 + round * 5 + 1) % members.len()];
            cluster.pause(other, Process::Paused);
            cluster.kill(chosen);
            cluster.store(2).await;
            // Longer than the lease, and than three heartbeats.
            tokio::time::sleep(Duration::from_secs(3)).await;
            cluster.pause(other, Process::Runs);
            cluster.join().await;
            cluster.store(1).await;
        }
        let witness = cluster.witness.clone();
        cluster.finish().await;
        assert!(*witness.taken_over.lock().unwrap() > 0);
    }
}

#[tokio::test(start_paused = true)]
async fn the_streams_of_a_killed_member_are_served_again_within_its_lease_and_three_heartbeats() {
    let mut cluster = or_skip!(Cluster::start(32, 3).await);
    cluster.store(1).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(cluster.witness.seen.lock().unwrap().len(), 32);
    let mut slowest = Duration::ZERO;
    for _ in 0..2 {
        let chosen = *cluster.members.keys().next().unwrap();
        cluster.kill(chosen);
        let killed = Instant::now();
        cluster.store(1).await;
        tokio::time::sleep(Duration::from_secs(6)).await;
        let number = cluster.messages.to_string();
        let seen = cluster.witness.seen.lock().unwrap().clone();
        let times: Vec<Duration> = seen
            .iter()
            .filter(|((_, id), _)| *id == number)
            .map(|(_, time)| time.saturating_duration_since(killed))
            .collect();
        assert_eq!(times.len(), 32, "every stream is served");
        slowest = slowest.max(times.into_iter().max().unwrap());
    }
    // The lease ends, the members notice the failure, and an upkeep takes the partitions.
    let bound =
        settings().lease.max(HEARTBEAT * 3) + settings().upkeep * 2 + Duration::from_secs(1);
    assert!(slowest > Duration::from_millis(500), "{slowest:?}");
    assert!(slowest <= bound, "{slowest:?} of {bound:?}");
    cluster.finish().await;
}

#[tokio::test(start_paused = true)]
async fn a_message_that_kills_its_members_is_set_aside_and_the_other_streams_continue() {
    let mut cluster = or_skip!(Cluster::start(8, 2).await);
    let killer = message("killer", 1).with_body("kill", "");
    cluster.sender.immediate().store(killer).await.unwrap();
    let mut kills = 0;
    while cluster.sender.dead_letters(1).await.unwrap().is_empty() {
        cluster.store(1).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        let is_dead = |(number, member): (&usize, &Member)| {
            let process = *member.process.borrow();
            (process == Process::Dead).then_some(*number)
        };
        if let Some(number) = cluster.members.iter().find_map(is_dead) {
            kills += 1;
            cluster.kill(number);
            cluster.join().await;
        }
        assert!(kills <= MAX_ATTEMPTS, "the message is not set aside");
    }
    assert_eq!(kills, MAX_ATTEMPTS);
    let aside = cluster.sender.dead_letters(1).await.unwrap();
    assert_eq!(
        (&*aside[0].stream, aside[0].attempts),
        ("killer", MAX_ATTEMPTS)
    );
    cluster.finish().await;
}
