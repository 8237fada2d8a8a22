//! Transactional activities, and their effects in the partition of their orchestration.

use std::collections::BTreeMap;

use cdb_client::{ContainerClient, Error};
use cdb_model::{Container, Document, Patch, Query};
use cdb_provider::CosmosDBProvider;
use cdb_provider::documents::Durable;
use cdb_provider::{ActivityError, Effects};
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

/// One effect. Each run of an activity creates another document.
#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[serde(rename_all = "camelCase")]
#[document(type = "effect", id = "{instance_id}:effect:{number}")]
pub struct Effect {
    /// The orchestration.
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
}

/// The transactional activities of a provider.
pub fn transactional(
    provider: &CosmosDBProvider,
    documents: &ContainerClient<Documents>,
) -> ActivityRegistry {
    let begin = provider.transactional(documents, async |ctx, tx, _: String| {
        let instance_id = ctx.instance_id().to_owned();
        tx.create(&Tally {
            instance_id,
            effects: 0,
        })?;
        Ok(())
    });
    ActivityRegistry::builder()
        .register("BeginTally", begin)
        .register("Count", provider.transactional(documents, count))
        .build()
}

/// Counts an effect. Every other step depends on the version of the tally, so concurrent steps run
/// again: at most nine times, once for each other step.
async fn count(
    ctx: ActivityContext,
    tx: Effects<Documents>,
    step: u64,
) -> Result<(), ActivityError> {
    let key = TallyKey::new(ctx.instance_id());
    let one = Patch::new().incr(Tally::EFFECTS, 1);
    if step.is_multiple_of(2) {
        let seen = tx.read(&key).await?.ok_or("there is no tally")?;
        tx.patch_stored(&seen, &one)?;
    } else {
        tx.patch::<Tally>(&key, &one)?;
    }
    tx.create(&Effect {
        instance_id: ctx.instance_id().to_owned(),
        step: step.to_string(),
        number: uuid::Uuid::new_v4().to_string(),
    })?;
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

    /// Returns the problem of an orchestration: lost or doubled effects.
    pub(crate) fn problem(&mut self, instance: &str) -> Option<String> {
        let tally = self.tallies.get(instance).copied().unwrap_or_default();
        let mut steps = self.steps.remove(instance).unwrap_or_default();
        steps.sort_unstable();
        let is_right = tally == STEPS && steps.iter().copied().eq(0..STEPS);
        (!is_right)
            .then(|| format!("{instance} has {tally} effects of {STEPS}, from the steps {steps:?}"))
    }
}
