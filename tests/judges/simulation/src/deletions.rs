//! Operators that delete instances while others start them: a detached child starts although its
//! parent is deleted right after its end, and an instance that is started again survives the
//! deletion of its former life.

use std::time::Duration;

use cdb_chaos::keep_trying;
use duroxide::{InstanceFilter, OrchestrationStatus};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use crate::random::Random;
use crate::workload::{BOUND, Caller, Seen};

/// The longest pause between two parents.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// The number of instances that are started again and again.
const RESTARTED: usize = 4;

/// The pause between two looks at an instance that is about to end.
const LOOK: Duration = Duration::from_millis(20);

impl Caller {
    /// Starts parents of detached children, and deletes each as soon as it has ended.
    pub(crate) async fn detached(&self, seed: u64, until: Instant) -> Seen {
        let mut random = Random::new(seed, "detached");
        let (mut work, mut following, mut number) = (Seen::default(), JoinSet::new(), 0);
        while Instant::now() < until {
            let (parent, child) = (format!("Parting-{number}"), format!("Parted-{number}"));
            work.start(self, &parent, "Parting", &child).await;
            let caller = self.clone();
            following.spawn(async move {
                caller.delete_at_end(&parent).await;
                let output = caller.end(&child, Duration::ZERO).await;
                (output.as_deref() != Some("once")).then(|| format!("{child}: {output:?}"))
            });
            number += 1;
            let pause = random.duration(Duration::from_secs(1)..LONGEST_PAUSE);
            sleep_until(until.min(Instant::now() + pause)).await;
        }
        while let Some(one) = following.join_next().await {
            work.problems.extend(one.expect("a client does not panic"));
        }
        work
    }

    /// Deletes an instance as soon as it has ended.
    async fn delete_at_end(&self, instance: &str) {
        let deadline = Instant::now() + BOUND;
        while Instant::now() < deadline {
            sleep(LOOK).await;
            let info = self.client.get_instance_info(instance).await;
            if !info.is_ok_and(|info| info.status == "Completed") {
                continue;
            }
            // A refused deletion is repeated later, as operators do.
            let delete = || self.client.delete_instance(instance, false);
            let _stays = keep_trying(delete).await;
            return;
        }
    }

    /// Starts instances again as soon as they are deleted, while another operator deletes all ended
    /// ones.
    pub(crate) async fn restarted(&self, seed: u64, until: Instant) -> Seen {
        let (mut work, mut restarting) = (Seen::default(), JoinSet::new());
        let names: Vec<String> = (0..RESTARTED).map(|at| format!("Restarted-{at}")).collect();
        for name in &names {
            let (caller, name) = (self.clone(), name.clone());
            restarting.spawn(async move { caller.restart(seed, &name, until).await });
        }
        let mut random = Random::new(seed, "operator");
        while Instant::now() < until {
            let filter = InstanceFilter {
                instance_ids: Some(names.clone()),
                completed_before: None,
                limit: None,
            };
            let _repeated = self.client.delete_instance_bulk(filter).await;
            sleep(random.duration(LOOK..Duration::from_secs(2))).await;
        }
        while let Some(one) = restarting.join_next().await {
            work.problems.extend(one.expect("a client does not panic"));
        }
        work
    }

    /// Starts an instance again and again. Each life books its number and ends; then it is deleted,
    /// unless the other operator was faster.
    async fn restart(&self, seed: u64, name: &str, until: Instant) -> Vec<String> {
        let mut random = Random::new(seed, name);
        let (mut problems, mut life) = (Vec::new(), 0);
        while Instant::now() < until {
            life += 1;
            let input = format!("life-{life}");
            let start = || self.client.start_orchestration(name, "Life", &*input);
            problems.extend(keep_trying(start).await.err());
            if !self.has_lived(name, &input).await {
                problems.push(format!("{name}: {input} has not ended"));
                return problems;
            }
            // A refused read does not tell that the instance is deleted, and a start of an instance
            // that exists changes nothing.
            while !self.is_deleted(name).await {
                sleep(random.duration(LOOK..LOOK * 20)).await;
                let _refused = self.client.delete_instance(name, false).await;
            }
            let rest = if random.chance(50) {
                Duration::ZERO
            } else {
                random.duration(LOOK..Duration::from_secs(20))
            };
            sleep_until(until.min(Instant::now() + rest)).await;
        }
        problems
    }

    async fn is_deleted(&self, name: &str) -> bool {
        let status = self.client.get_orchestration_status(name).await;
        matches!(status, Ok(OrchestrationStatus::NotFound))
    }

    /// Waits until a life of an instance has ended. An operator may delete it at once.
    async fn has_lived(&self, name: &str, life: &str) -> bool {
        let deadline = Instant::now() + BOUND;
        let mut looks = 0_u32;
        while Instant::now() < deadline {
            looks += 1;
            sleep(LOOK * looks.min(50)).await;
            match self.client.get_orchestration_status(name).await {
                Ok(OrchestrationStatus::Completed { output, .. }) if output == life => return true,
                Ok(OrchestrationStatus::NotFound) if looks.is_multiple_of(16) => {
                    let booked = keep_trying(|| self.ledger.read()).await.unwrap_or_default();
                    if booked
                        .get(name)
                        .is_some_and(|steps| steps.contains_key(life))
                    {
                        return true;
                    }
                }
                _ => {}
            }
        }
        false
    }
}
