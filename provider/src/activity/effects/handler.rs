//! Runs the body of an activity, and commits its effects.

use std::sync::Arc;

use cdb_client::ContainerClient;
use cdb_coordination::lease::is_lost_race;
use cdb_coordination::retry::{Jitter, RetryPolicy};
use cdb_model::Batch;
use cdb_model::container::Extends;
use duroxide::ActivityContext;
use duroxide::providers::WorkItem;
use futures::future::BoxFuture;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tracing::Instrument as _;

use super::error::ActivityError;
use super::outbox::{Outgoing, as_part};
use super::staged::{Effects, Operations};
use crate::activity::{self, Ended, Ending};
use crate::error::Error;
use crate::queue::activities::{Activities, ActivityKey, EffectsState};
use crate::queue::local_queue::Shared;
use crate::queue::{Services, Telemetry};
use crate::stored::documents::Durable;
use crate::timing::{MAX_EFFECTS_PAUSE, MIN_EFFECTS_PAUSE};

/// The most runs of a body whose effects are refused.
const MAX_RUNS: u32 = 10;

/// The most commits while other commits use the same message streams.
const MAX_SEALS: u32 = 8;

/// A transactional activity, to be registered in duroxide's `ActivityRegistry`.
pub type TransactionalActivity = Box<
    dyn Fn(ActivityContext, String) -> BoxFuture<'static, Result<String, String>> + Send + Sync,
>;

/// Commits the effects of activities through one provider.
pub(crate) struct Handler<C> {
    pub(crate) services: Services,
    pub(crate) telemetry: Arc<Telemetry>,
    pub(crate) container: ContainerClient<C>,
    pub(crate) outbox: Option<Arc<dyn Outgoing<C>>>,
}

/// The outcome of an attempt to commit.
enum Commit {
    Done,
    /// An operation met another state than the body expected.
    Refused(String),
}

/// An activity that this process has locked.
struct Activity {
    shared: Shared<Activities>,
    token: String,
    key: ActivityKey,
}

impl Activity {
    /// Lets the runtime release the activity after this run, in place of its failure.
    async fn run_again(&self) {
        self.shared.lock().await.effects = EffectsState::Unsettled;
    }

    fn completed(&self, result: &str) -> WorkItem {
        WorkItem::ActivityCompleted {
            instance: self.key.instance_id.clone(),
            execution_id: self.key.execution_id,
            id: self.key.activity_id,
            result: result.to_owned(),
        }
    }
}

impl<C: Extends<Durable>> Handler<C> {
    /// Runs a body until its effects are committed.
    ///
    /// # Errors
    /// When the body fails, when its effects cannot be committed, or when they are refused at every
    /// run. No effects take place then. If the runtime is to run the activity again, its lock says
    /// so.
    pub(crate) async fn run<M, In, Out, Fut>(
        &self,
        body: impl Fn(ActivityContext, Effects<C, M>, In) -> Fut,
        ctx: ActivityContext,
        input: &str,
    ) -> Result<String, String>
    where
        In: DeserializeOwned,
        Out: Serialize,
        Fut: Future<Output = Result<Out, ActivityError>>,
    {
        let activity = self.locked_activity(&ctx).await?;
        let policy = RetryPolicy::default().with_delays(MIN_EFFECTS_PAUSE, MAX_EFFECTS_PAUSE);
        let (mut runs, jitter) = (0, Jitter::random());
        loop {
            let effects = self.begin(&ctx, runs);
            let ran = body(ctx.clone(), effects.clone(), decode(input)?).await;
            runs += 1;
            let staged = effects.end();
            if ran.as_ref().is_err_and(ActivityError::is_transient) {
                activity.run_again().await;
            }
            let result = encode(&ran.map_err(|error| error.to_string())?)?;
            let reason = match self.commit(&activity, staged?, &result).await? {
                Commit::Done => return Ok(result),
                Commit::Refused(reason) => reason,
            };
            if runs == MAX_RUNS || ctx.is_cancelled() {
                let name = ctx.activity_name();
                return Err(format!(
                    "the effects of activity `{name}` were refused in each of {runs} runs: {reason}"
                ));
            }
            tracing::debug!(activity = ctx.activity_name(), runs, %reason, "the body runs again");
            tokio::time::sleep(policy.delay(runs, &jitter)).await;
        }
    }

    /// Returns the activity of a context.
    ///
    /// # Errors
    /// When this provider has not locked it, or the container is not the provider's.
    async fn locked_activity(&self, ctx: &ActivityContext) -> Result<Activity, String> {
        let name = ctx.activity_name();
        let own = self.services.container();
        let (wanted, found) = ((own.database(), own.name()), &self.container);
        if wanted != (found.database(), found.name()) {
            return Err(format!(
                "the effects of activity `{name}` are for container `{}/{}`, but its instance is in `{}/{}`; \
                open the container with `CosmosDBProvider::open` and pass the client that it returns",
                found.database(),
                found.name(),
                wanted.0,
                wanted.1
            ));
        }
        let key = activity_key(ctx).ok_or_else(|| {
            format!("cannot identify activity `{name}`: duroxide has another version than 0.1.32")
        })?;
        let shared = self.services.activities().lock_of(&key).ok_or_else(|| {
            format!(
                "transactional activity `{name}` is not locked by its provider; start the runtime with the \
                provider whose `transactional` made the activity"
            )
        })?;
        let token = shared.lock().await.token.clone();
        Ok(Activity { shared, token, key })
    }

    /// Returns empty effects. A body that runs again reads the latest commit.
    fn begin<M>(&self, ctx: &ActivityContext, runs: u32) -> Effects<C, M> {
        let id = ctx.instance_id();
        let container = match runs {
            0 => self.container.clone(),
            _ => self.container.latest_committed(),
        };
        let operations = match &self.outbox {
            Some(outbox) => Operations::WithMessages(outbox.begin(id), outbox.clone()),
            None => Operations::Changes(Batch::new(id)),
        };
        Effects::new(operations, container, id)
    }

    /// Commits the effects and the end of the activity.
    ///
    /// # Errors
    /// When the batch cannot be committed. If the runtime is to run the activity again, its lock
    /// says so.
    async fn commit(
        &self,
        activity: &Activity,
        staged: Operations<C>,
        result: &str,
    ) -> Result<Commit, String> {
        let limits = &self.services.store.limits;
        let is_too_large = limits.check_value("the result", result.len()).is_err();
        // The runtime's acknowledgement ends an activity without effects, and fails one whose result
        // is too large.
        if staged.len() == 0 || is_too_large {
            return Ok(Commit::Done);
        }
        let span = self.telemetry.activities.span(&activity.token);
        let committed = self.send(activity, &staged, result).instrument(span).await;
        match committed {
            Ok(commit) => Ok(commit),
            Err(error) => {
                if error.is_retryable() {
                    activity.run_again().await;
                }
                Err(error.to_string())
            }
        }
    }

    /// Sends the batch, with new numbers for its messages while other commits use the same streams.
    async fn send(
        &self,
        activity: &Activity,
        staged: &Operations<C>,
        result: &str,
    ) -> Result<Commit, Error> {
        for _ in 0..MAX_SEALS {
            let id = &activity.key.instance_id;
            let (part, sealed) = match staged {
                Operations::Changes(changes) => (as_part(id, changes)?, None),
                Operations::WithMessages(staged, outbox) => {
                    let sealed = outbox.seal(staged).await?;
                    (sealed.operations(id)?, Some(sealed))
                }
            };
            let completion = Some(activity.completed(result));
            let ending = Ending {
                completion,
                effects: Some(&part),
                ..Ending::default()
            };
            let ended = activity::end(&self.services, &activity.shared, ending);
            match (ended.await?, sealed) {
                (Ended::Committed(effects), sealed) => {
                    if let Some(sealed) = sealed {
                        sealed.deliver(&effects);
                    }
                    return Ok(Commit::Done);
                }
                (Ended::Refused { operation, error }, Some(sealed))
                    if sealed.lost_race(operation, &error) => {}
                (Ended::Refused { operation, error }, _) if is_lost_race(&error) => {
                    let id = part.id(operation.into()).map(ToString::to_string);
                    let id = id.unwrap_or_default();
                    return Ok(Commit::Refused(format!("document `{id}`: {error}")));
                }
                (Ended::Refused { error, .. }, _) => return Err(error.into()),
            }
        }
        Err(Error::Retryable(
            "other commits used the same message streams at every attempt".to_owned(),
        ))
    }
}

/// Reads an input as duroxide's typed activities do: JSON, or a text.
fn decode<T: DeserializeOwned>(input: &str) -> Result<T, String> {
    serde_json::from_str(input).or_else(|error| {
        let text = serde_json::to_string(input).and_then(|text| serde_json::from_str(&text));
        text.map_err(|_| format!("the input cannot be read: {error}"))
    })
}

/// Writes a result as duroxide's typed activities do: a text as it is, anything else as JSON.
fn encode<T: Serialize>(result: &T) -> Result<String, String> {
    let json = serde_json::to_string(result)
        .map_err(|error| format!("the result cannot be written: {error}"))?;
    Ok(serde_json::from_str::<String>(&json).unwrap_or(json))
}

/// Returns the key of the activity that this context belongs to. duroxide has no accessor for the
/// number of an activity, but its `Debug` text has the number after fields with accessors. Returns
/// `None` if the text has another form.
fn activity_key(ctx: &ActivityContext) -> Option<ActivityKey> {
    let before = format!(
        "ActivityContext {{ instance_id: {:?}, execution_id: {}, orchestration_name: {:?}, \
        orchestration_version: {:?}, activity_name: {:?}, activity_id: ",
        ctx.instance_id(),
        ctx.execution_id(),
        ctx.orchestration_name(),
        ctx.orchestration_version(),
        ctx.activity_name(),
    );
    let text = format!("{ctx:?}");
    let (number, _) = text.strip_prefix(&before)?.split_once(',')?;
    let number: u64 = number.parse().ok()?;
    Some(ActivityKey::new(
        ctx.instance_id(),
        ctx.execution_id(),
        number,
    ))
}
