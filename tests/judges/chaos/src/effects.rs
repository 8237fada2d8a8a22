//! Transactional activities: their effects in the partition of their orchestration, and messages to
//! another partition.

use std::collections::BTreeMap;
use std::time::Duration;

use cdb_client::{ContainerClient, Error};
use cdb_model::{Container, Document, Patch, Query};
use cdb_provider::coordination::messaging::{Handled, MessagingConfig};
use cdb_provider::coordination::retry::RetryPolicy;
use cdb_provider::coordination::{Message, MessageDocument, Messaging, OutboxBatch, Received};
use cdb_provider::documents::Durable;
use cdb_provider::{ActivityError, CosmosDBProvider, Effects, WithMessages};
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, OrchestrationContext};
use serde::{Deserialize, Serialize};

/// The concurrent activities of an orchestration, with an effect each.
pub(crate) const STEPS: u64 = 10;

/// The number of effects in a partition. A second effect of an activity changes it.
#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[serde(rename_all = "camelCase")]
#[document(type = "tally", id = "{instance_id}:tally")]
pub struct Tally {
    /// The orchestration.
    #[document(partition_key)]
    pub instance_id: String,
    /// The number.
    pub effects: u64,
}

/// One effect. Each run of an activity creates another document, and so does each receipt of its
/// message.
#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[serde(rename_all = "camelCase")]
#[document(type = "effect", id = "{instance_id}:effect:{number}")]
pub struct Effect {
    /// The orchestration, or the partition that receives its messages.
    #[document(partition_key)]
    pub instance_id: String,
    /// The activity.
    pub step: String,
    /// A random number.
    pub number: String,
}

/// The provider's documents, and those of the effects.
#[expect(clippy::large_enum_variant, reason = "few documents are decoded")]
#[derive(Container, Clone, Debug)]
pub enum Documents {
    /// A document of the provider.
    #[container(extends)]
    Durable(Durable),
    /// The number of effects.
    Tally(Tally),
    /// An effect.
    Effect(Effect),
    /// A message, or what remains of one.
    Message(MessageDocument<Documents>),
}

/// To another partition: note a step as an effect.
#[derive(Debug, Serialize, Deserialize)]
struct Note {
    received_by: String,
    step: u64,
}

impl Message for Note {
    const TYPE: &'static str = "note";
}

/// Returns the partition that receives the messages of an orchestration.
fn receiver(instance: &str) -> String {
    format!("{instance}-received")
}

fn effect(instance_id: String, step: u64) -> Effect {
    Effect {
        instance_id,
        step: step.to_string(),
        number: uuid::Uuid::new_v4().to_string(),
    }
}

/// Starts to deliver and to receive the messages of transactional activities.
pub fn messaging(
    documents: &ContainerClient<Documents>,
    poll_interval: Duration,
) -> Messaging<Documents> {
    let note = async |note: Received<Note>, mut batch: OutboxBatch<Documents>| {
        let Note { received_by, step } = note.message;
        batch.add(effect(received_by, step).create())?;
        Handled::Ok(batch)
    };
    // Refused requests cost attempts, and no message may become a dead letter.
    let retry = RetryPolicy::default().with_max_attempts(10_000);
    let config = MessagingConfig::default()
        .with_retry(retry)
        .with_poll_interval(poll_interval);
    Messaging::builder(documents.clone())
        .config(config)
        .on(note)
        .start()
        .expect("the durations fit")
}

/// The transactional activities of a provider.
pub fn transactional(
    provider: &CosmosDBProvider,
    messaging: &Messaging<Documents>,
) -> ActivityRegistry {
    let begin = provider.transactional(messaging.container(), async |ctx, tx, _: String| {
        let instance_id = ctx.instance_id().to_owned();
        tx.add(
            Tally {
                instance_id,
                effects: 0,
            }
            .create(),
        )?;
        Ok(())
    });
    ActivityRegistry::builder()
        .register("BeginTally", begin)
        .register("Count", provider.transactional_with(messaging, count))
        .build()
}

/// Counts an effect. Every other step depends on the version of the tally, so concurrent steps run
/// again: at most nine times, once for each other step.
async fn count(
    ctx: ActivityContext,
    tx: Effects<Documents, WithMessages>,
    step: u64,
) -> Result<(), ActivityError> {
    let key = TallyKey::new(ctx.instance_id());
    let one = Patch::new().incr(Tally::EFFECTS, 1);
    if step.is_multiple_of(2) {
        let seen = tx.read(&key).await?.ok_or("there is no tally")?;
        tx.add(one.at(&seen))?;
    } else {
        tx.add(one.at(&key))?;
    }
    tx.add(effect(ctx.instance_id().to_owned(), step).create())?;
    let received_by = receiver(ctx.instance_id());
    tx.send(received_by.clone(), &Note { received_by, step })?;
    Ok(())
}

/// The orchestration of transactional activities.
pub(crate) async fn run_effects(ctx: OrchestrationContext, _: String) -> Result<String, String> {
    ctx.schedule_activity("BeginTally", "").await?;
    let steps = (0..STEPS).map(|step| ctx.schedule_activity("Count", step.to_string()));
    for ended in ctx.join(steps.collect()).await {
        ended?;
    }
    Ok(STEPS.to_string())
}

/// The effects of orchestrations.
#[derive(Debug, Default)]
pub(crate) struct Counted {
    tallies: BTreeMap<String, u64>,
    steps: BTreeMap<String, Vec<u64>>,
}

impl Counted {
    /// Reads all effects.
    pub(crate) async fn read(documents: &ContainerClient<Documents>) -> Result<Self, Error> {
        let mut counted = Self::default();
        let tallies = documents.query(Query::<Tally>::across_partitions()).all();
        for tally in tallies.await? {
            let tally = tally.document;
            counted.tallies.insert(tally.instance_id, tally.effects);
        }
        let effects = documents.query(Query::<Effect>::across_partitions()).all();
        for effect in effects.await? {
            let Effect {
                instance_id, step, ..
            } = effect.document;
            let steps = counted.steps.entry(instance_id).or_default();
            steps.push(step.parse().unwrap_or(u64::MAX));
        }
        Ok(counted)
    }

    /// Returns the problem of an orchestration: lost or doubled effects or messages.
    pub(crate) fn problem(&self, instance: &str) -> Option<String> {
        let tally = self.tallies.get(instance).copied().unwrap_or_default();
        let (steps, received) = (self.steps(instance), self.steps(&receiver(instance)));
        let is_complete = |steps: &[u64]| steps.iter().copied().eq(0..STEPS);
        let is_right = tally == STEPS && is_complete(&steps) && is_complete(&received);
        (!is_right).then(|| {
            format!(
                "{instance} has {tally} effects of {STEPS}, from the steps {steps:?}; \
                 the messages of the steps {received:?} are received"
            )
        })
    }

    fn steps(&self, partition: &str) -> Vec<u64> {
        let mut steps = self.steps.get(partition).cloned().unwrap_or_default();
        steps.sort_unstable();
        steps
    }
}
