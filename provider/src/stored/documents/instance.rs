//! An orchestration instance: its current execution, its lock, and the token of its last commit.

use std::collections::BTreeMap;
use std::fmt;

use cdb_coordination::lease::Lockable;
use cdb_model::{Document, Scalar, Timestamp};
use serde::{Deserialize, Serialize};

use super::attribute::AttributeValue;
use super::chunk::Text;

/// An orchestration instance, in one document. Every change of its lock and every commit is
/// conditional on its ETag.
///
/// ```
/// use cdb_provider::documents::{Instance, InstanceKey, Status};
/// use cdb_provider::model::{Document as _, Query};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let emulator = cdb_emulator::Emulator::start().await?;
/// # let store = cdb_provider::CosmosDBProvider::new(&emulator.endpoint(), emulator.key(), "duroxide").await?;
/// # let now = store.container().now();
/// # for (id, name, status) in [("order-1", "Order", Status::Failed), ("order-2", "Order", Status::Running), ("ship-1", "Ship", Status::Failed)] {
/// #     let instance = Instance { orchestration_name: name.to_owned(), status, ..Instance::pending(id, now) };
/// #     store.container().run(instance.create()).await?;
/// # }
/// let failed = Query::<Instance>::across_partitions().filter(Instance::STATUS.eq(Status::Failed));
/// let mut orders = Vec::new();
/// for found in store.container().query(failed).all().await? {
///     // Names are not indexed. Few instances fail, so they are filtered here.
///     if found.document.orchestration_name == "Order" {
///         orders.push(found.document.instance_id);
///     }
/// }
/// assert_eq!(orders, ["order-1"]);
///
/// // A single instance costs a point read.
/// let order = store.container().read(&InstanceKey::new("order-2")).await?.expect("it was started");
/// assert!(order.document.has_more());
/// # Ok(()) }
/// ```
#[derive(Document, Serialize, Deserialize, Clone, Debug, Default)]
#[serde(rename_all = "camelCase")]
#[document(type = "instance", id = "{instance_id}:instance")]
#[document(composite(BY_CREATED = r#type, created_at))]
pub struct Instance {
    /// The id of the instance, chosen by the caller that started it.
    #[document(partition_key)]
    pub instance_id: String,
    /// The name of the orchestration; empty until the first turn is committed.
    pub orchestration_name: String,
    /// The version of the orchestration, once the runtime has resolved it.
    #[serde(default)]
    pub orchestration_version: Option<String>,
    /// The id of the newest execution.
    pub current_execution_id: u64,
    /// The status of the newest execution.
    #[document(index)]
    pub status: Status,
    /// The result or error of the newest execution.
    #[document(unindexed)]
    #[serde(default)]
    pub output: Option<Text>,
    /// The instance that started this one as a sub-orchestration.
    #[document(index)]
    #[serde(default)]
    pub parent_instance_id: Option<String>,
    /// The creation of that parent, which distinguishes it from a later instance of its id. Missing if
    /// an earlier version has started the child.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_created_at: Option<Timestamp>,
    /// The duroxide version that the newest execution is pinned to, as `major * 1_000_000 + minor *
    /// 1_000 + patch`.
    #[serde(default)]
    pub pinned_duroxide_version_packed: Option<u64>,
    /// The custom status set by the orchestration.
    #[document(unindexed)]
    #[serde(default)]
    pub custom_status: Option<String>,
    /// The number of changes of the custom status.
    #[serde(default)]
    pub custom_status_version: u64,
    /// The lock token of the current turn.
    #[serde(default)]
    pub lock_token: Option<String>,
    /// The expiry of the lock, by the service's clock.
    #[document(index)]
    #[serde(default)]
    pub locked_until: Option<Timestamp>,
    /// The lock token of the last committed turn. After a lost answer it tells whether the commit
    /// took place.
    #[serde(default)]
    pub commit_token: Option<String>,
    /// The number of fetches per queued message, by item id. Counting here lets a fetch write one
    /// document instead of one per message.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub attempts: BTreeMap<String, u32>,
    /// The number of history documents of the newest execution; a load with another number is
    /// stale. Absent on instances written by `duroxide-cdb`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history_documents: Option<u64>,
    /// The time of creation.
    #[document(index)]
    pub created_at: Timestamp,
    /// The time of the last write.
    pub updated_at: Timestamp,
    /// The start of the newest execution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// The operator's change that created the instance: a fork or a restart of another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<OperatorAction>,
    /// The origin under its earlier name. Only read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forked: Option<OperatorAction>,
    /// The operator's pause. While there is one, no turn and no activity of the instance starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<OperatorAction>,
    /// Why the instance is held: the code of the runtimes that took its turn cannot execute it. The
    /// next commit removes it. Versions that do not know it try the turn again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<Hold>,
    /// The number of queued events that the newest execution has not taken, while it gets no others:
    /// those stay due until it takes some, or if it has failed until the instance is rewound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub untaken_events: Option<u32>,
    /// The request units that the instance has been charged, without its last commit. Absent on
    /// instances that older versions have written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_units: Option<f64>,
    /// The end of the newest execution.
    #[document(index)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Timestamp>,
    /// The [search attributes](trait@crate::SearchAttributes), by name. Every commit copies them from the
    /// key-value store.
    #[document(index(*))]
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: BTreeMap<String, AttributeValue>,
}

impl Instance {
    /// Creates an instance that exists only to be locked for its first turn.
    pub fn pending(instance_id: &str, now: Timestamp) -> Self {
        Self {
            instance_id: instance_id.to_owned(),
            current_execution_id: 1,
            history_documents: Some(0),
            created_at: now,
            updated_at: now,
            ..Self::default()
        }
    }

    /// Returns whether a turn was ever committed. Before the first commit, only the lock exists.
    pub fn is_created(&self) -> bool {
        !self.orchestration_name.is_empty()
    }

    /// Returns whether the document is more than a lock for the first turn: a turn was committed, or the
    /// instance was paused before.
    pub(crate) fn is_begun_or_paused(&self) -> bool {
        self.is_created() || self.paused.is_some()
    }

    /// Returns whether a turn was committed and another one can follow, of this execution or of the
    /// next one.
    pub(crate) fn is_running(&self) -> bool {
        self.is_created() && self.has_more()
    }

    /// Returns whether the next turn begins an execution, so that it needs the message that starts
    /// it. `duroxide-cdb` keeps the status of an earlier execution while the next one runs, so the
    /// status of its documents, which have no count, proves nothing.
    pub(crate) fn awaits_start(&self) -> bool {
        let is_between = self.status == Status::ContinuedAsNew && self.history_documents.is_some();
        !self.is_created() || is_between
    }

    /// Returns whether another turn can follow.
    pub fn has_more(&self) -> bool {
        self.status.has_more()
    }
}

impl Lockable for Instance {
    fn lock_mark(&self) -> Option<&str> {
        self.lock_token.as_deref()
    }

    fn locked_until(&self) -> Option<Timestamp> {
        self.locked_until.filter(|_| self.lock_token.is_some())
    }
}

/// The status of an execution, in duroxide's terms.
///
/// ```
/// use cdb_provider::documents::Status;
///
/// assert!(Status::Failed.is_terminal() && !Status::Running.is_terminal());
/// // The execution has ended, and the instance goes on.
/// assert!(Status::ContinuedAsNew.is_terminal() && Status::ContinuedAsNew.has_more());
/// // A status of a newer version is preserved.
/// assert_eq!(Status::from("Suspended".to_owned()).to_string(), "Suspended");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum Status {
    /// Locked for a first turn that is not committed yet. Not listed as an instance.
    #[default]
    Pending,
    /// Running.
    Running,
    /// Ended with a result.
    Completed,
    /// Ended with an error.
    Failed,
    /// Replaced by a newer execution.
    ContinuedAsNew,
    /// A status that this version does not know, preserved as text.
    Other(String),
}

// `From` makes no `Other` of a known text, so a text has one value.
impl Scalar for Status {}

impl Status {
    /// Returns the stored text.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Pending => "Pending",
            Self::Running => "Running",
            Self::Completed => "Completed",
            Self::Failed => "Failed",
            Self::ContinuedAsNew => "ContinuedAsNew",
            Self::Other(text) => text,
        }
    }

    /// Returns whether another turn of the instance can follow. Between two executions it can.
    pub fn has_more(&self) -> bool {
        !matches!(self, Self::Completed | Self::Failed)
    }

    /// Returns whether the execution has ended.
    pub fn is_terminal(&self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::ContinuedAsNew)
    }
}

impl From<String> for Status {
    fn from(text: String) -> Self {
        match text.as_str() {
            "Pending" => Self::Pending,
            "Running" => Self::Running,
            "Completed" => Self::Completed,
            "Failed" => Self::Failed,
            "ContinuedAsNew" => Self::ContinuedAsNew,
            _ => Self::Other(text),
        }
    }
}

impl From<Status> for String {
    fn from(status: Status) -> Self {
        status.as_str().to_owned()
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A change of an instance by an operator.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct OperatorAction {
    /// The time of the change.
    pub at: Timestamp,
    /// The operator, as the tool names it.
    pub by: String,
    /// What was changed, in words.
    pub what: String,
}

/// Why an instance is held. Its messages stay queued, and no attempt counts.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Hold {
    /// The time from which on the instance has been held.
    pub since: Timestamp,
    /// The kind of the reason.
    pub cause: HoldCause,
    /// The orchestration that was to be executed.
    pub orchestration: String,
    /// Its version, unless the runtime was to choose one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The recorded event at which the code decides otherwise, if only one event can be meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<u64>,
    /// The reason in duroxide's words, encoded like a payload, because it may quote an input.
    pub reason: String,
    /// The runtime that could not execute the turn: its machine, process and a random number, or its
    /// name in the membership.
    pub by: String,
}

impl Hold {
    /// Returns what continues the instance, without a rewind.
    pub(crate) fn cure(&self) -> String {
        let orchestration = &self.orchestration;
        match (self.cause, self.event) {
            (HoldCause::Unregistered, _) => {
                format!("it continues when a runtime registers `{orchestration}`, without a rewind")
            }
            (_, Some(event)) => format!(
                "it continues with code that replays it, without a rewind; \
                 for the deployed code fork it at event {event}"
            ),
            (_, None) => "it continues with code that replays it, without a rewind; \
                 `instances replay` names the event at which to fork it for the deployed code"
                .to_owned(),
        }
    }
}

/// The kind of the reason why an instance is held.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub enum HoldCause {
    /// The code makes other decisions than the recorded ones.
    Nondeterminism,
    /// The orchestration, or its version, is not registered.
    Unregistered,
    /// A cause of a newer version.
    #[serde(other)]
    Other,
}

impl HoldCause {
    /// Returns the stored text.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Nondeterminism => "nondeterminism",
            Self::Unregistered => "unregistered",
            Self::Other => "other",
        }
    }
}
