//! Operators that delete instances while others start them: a detached child starts although its
//! parent is deleted right after its end, and an instance that is started again survives the
//! deletion of its former life.

use duroxide::InstanceFilter;

use crate::workload::prelude::*;

/// The longest pause between two parents.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// The number of instances that are started again and again.
const RESTARTED: usize = 4;

/// The pause between two looks at an instance that is about to end.
const LOOK: Duration = Duration::from_millis(20);

/// Parents of detached children, which are deleted as soon as they have ended.
pub(super) struct Detached;

/// Instances that are started again as soon as they are deleted, while another operator deletes all
/// ended ones.
pub(super) struct Restarted;

#[async_trait(?Send)]
impl Workload for Detached {
    fn about(&self) -> About {
        About::half(
            "detached",
            "Parents of detached children that are deleted as soon as they have ended",
        )
    }

    fn orchestrations(&self, all: Orchestrations, _: u32) -> Orchestrations {
        all.register("Parting", |ctx, child| async move {
            ctx.schedule_orchestration("Once", child, "");
            Ok("parted".to_owned())
        })
    }

    async fn run(&self, caller: &Caller) -> Seen {
        let mut random = Random::new(caller.seed, "detached");
        let (mut work, mut following, mut number) = (Seen::default(), JoinSet::new(), 0);
        while caller.goes_on() {
            let (parent, child) = (format!("Parting-{number}"), format!("Parted-{number}"));
            work.start(caller, &parent, "Parting", &child).await;
            let one = caller.clone();
            following.spawn(async move {
                delete_at_end(&one, &parent).await;
                one.misses(&child, "once").await
            });
            number += 1;
            caller.rest(&mut random, SECOND..LONGEST_PAUSE).await;
        }
        work.gather(following).await
    }
}

#[async_trait(?Send)]
impl Workload for Restarted {
    fn about(&self) -> About {
        About::half(
            "restarted",
            "Instances that are started again while operators delete them",
        )
    }

    fn orchestrations(&self, all: Orchestrations, _: u32) -> Orchestrations {
        all.register("Life", |ctx, life| async move {
            ctx.schedule_activity("Book", format!("{life}:1")).await?;
            Ok(life)
        })
    }

    async fn run(&self, caller: &Caller) -> Seen {
        let mut restarting = JoinSet::new();
        let names: Vec<String> = (0..RESTARTED).map(|at| format!("Restarted-{at}")).collect();
        for name in &names {
            restarting.spawn(restart(caller.clone(), name.clone()));
        }
        let mut random = Random::new(caller.seed, "operator");
        while caller.goes_on() {
            let filter = InstanceFilter {
                instance_ids: Some(names.clone()),
                completed_before: None,
                limit: None,
            };
            let _repeated = caller.client.delete_instance_bulk(filter).await;
            sleep(random.duration(LOOK..Duration::from_secs(2))).await;
        }
        Seen::default().gather(restarting).await
    }
}

/// Deletes an instance as soon as it has ended.
async fn delete_at_end(caller: &Caller, instance: &str) {
    let deadline = Instant::now() + BOUND;
    while Instant::now() < deadline {
        sleep(LOOK).await;
        let info = caller.client.get_instance_info(instance).await;
        if !info.is_ok_and(|info| info.status == "Completed") {
            continue;
        }
        // A refused deletion is repeated later, as operators do.
        let delete = || caller.client.delete_instance(instance, false);
        let _stays = keep_trying(delete).await;
        return;
    }
}

/// Starts an instance again and again. Each life books its number and ends; then it is deleted,
/// unless the other operator was faster.
async fn restart(caller: Caller, name: String) -> Vec<String> {
    let mut random = Random::new(caller.seed, &name);
    let (mut problems, mut life) = (Vec::new(), 0);
    while caller.goes_on() {
        life += 1;
        let input = format!("life-{life}");
        let start = || caller.client.start_orchestration(&name, "Life", &*input);
        problems.extend(keep_trying(start).await.err());
        if !has_lived(&caller, &name, &input).await {
            if !started_late(&caller, &name) {
                problems.push(format!("{name}: {input} has not ended"));
            }
            return problems;
        }
        // A refused read does not tell that the instance is deleted, and a start of an instance
        // that exists changes nothing.
        while !is_deleted(&caller, &name).await {
            sleep(random.duration(LOOK..LOOK * 20)).await;
            let _refused = caller.client.delete_instance(&name, false).await;
        }
        let rest = if random.chance(50) {
            Duration::ZERO
        } else {
            random.duration(LOOK..Duration::from_secs(20))
        };
        caller.rest_for(rest).await;
    }
    problems
}

/// Returns whether a start of an instance arrived a second time, after the deletion of its life:
/// duroxide ignores the next start (docs/errors.md, "Not covered").
fn started_late(caller: &Caller, name: &str) -> bool {
    let start = format!(r#"{{\"StartOrchestration\":{{\"instance\":\"{name}\""#);
    let network = &caller.cluster.network;
    network.wrote_late(|body| body.contains(&start))
}

async fn is_deleted(caller: &Caller, name: &str) -> bool {
    let status = caller.client.get_orchestration_status(name).await;
    matches!(status, Ok(OrchestrationStatus::NotFound))
}

/// Waits until a life of an instance has ended. An operator may delete it at once.
async fn has_lived(caller: &Caller, name: &str, life: &str) -> bool {
    let deadline = Instant::now() + BOUND;
    let mut looks = 0_u32;
    while Instant::now() < deadline {
        looks += 1;
        sleep(LOOK * looks.min(50)).await;
        match caller.client.get_orchestration_status(name).await {
            Ok(OrchestrationStatus::Completed { output, .. }) if output == life => return true,
            Ok(OrchestrationStatus::NotFound) if looks.is_multiple_of(16) => {
                let booked = keep_trying(|| caller.ledger.read())
                    .await
                    .unwrap_or_default();
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
