//! Pages of instances, by the time of their creation.

use std::collections::BTreeMap;
use std::fmt;

use cdb_client::query::Continuation;
use cdb_model::policy::{CompositeIndexPath, IndexingPolicy};
use cdb_model::query::{Criterion, Explain, Filter, Order, SortCriterion};
use cdb_model::{Query, Timestamp};
use cdb_provider::documents::{
    AttributeValue, Durable, Hold, Instance, InstanceKey, OperatorAction, Status,
};
use cdb_provider::observe::Unstarted;
use serde::Serialize;
use serde_json::Value;

use super::attribute_filter::meets;
use super::standstill::{self, WaitsFor};
use super::state::state;
use crate::container::Orchestrations;
use crate::container::work_item::{Start, shown};
use crate::exit::{Exit, Failure};
use crate::output::{short, table};
use crate::view::queues::unstarted::Waiting;

/// The number of instances that a filter without an index reads before it returns what it found.
const MOST_EXAMINED: usize = 5_000;

/// The number of instances that are read at a time when all are read.
const LARGE_PAGE: usize = 1_000;

/// The statuses of running instances. Between two executions, an instance is running.
pub(crate) const RUNNING: [Status; 2] = [Status::Running, Status::ContinuedAsNew];

/// The characters of an error in a list.
const LONGEST_ERROR: usize = 300;

/// The filters of a list.
#[derive(Clone, Debug, Default)]
pub(crate) struct ListFilter {
    /// The accepted states. Empty accepts any state.
    pub statuses: Vec<Status>,
    /// The parent instance.
    pub parent: Option<String>,
    /// Whether only instances without a parent are accepted.
    pub roots: bool,
    pub created_after: Option<Timestamp>,
    pub created_before: Option<Timestamp>,
    pub ended_before: Option<Timestamp>,
    /// The conditions on search attributes.
    pub attributes: Vec<Criterion>,
    /// Whether the oldest instance is listed first.
    pub oldest_first: bool,
    /// The search attributes to sort by. Empty sorts by the time of creation.
    pub sort: Vec<SortCriterion>,
    pub unindexed: UnindexedFilter,
}

/// The filters that no index serves. The command tests each instance that the other filters return.
#[derive(Clone, Debug, Default)]
pub(crate) struct UnindexedFilter {
    /// The name of the orchestration.
    pub orchestration: Option<String>,
    /// The version of the orchestration.
    pub version: Option<String>,
    /// A text in the custom status.
    pub custom_status: Option<String>,
    /// A text in the id or the orchestration's name.
    pub text: Option<String>,
    /// Whether only paused instances are accepted.
    pub paused: bool,
    /// Whether only held instances are accepted.
    pub held: bool,
}

/// An instance in a list.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Row {
    pub id: String,
    pub orchestration: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    pub status: Status,
    /// The state: the status, or what keeps a running instance from continuing.
    pub state: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub custom_status: Option<String>,
    pub execution: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Timestamp>,
    /// Whether its start is queued, and no turn of it is committed.
    #[serde(skip)]
    pub is_unbegun: bool,
    /// The operator's pause.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<OperatorAction>,
    /// Why the instance waits for other code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held: Option<Hold>,
    /// The request units that the instance has been charged, without its last commit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_units: Option<f64>,
    /// The error of a failed instance, in a list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What a running instance waits for, in a list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<WaitsFor>,
    /// The search attributes.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: BTreeMap<String, AttributeValue>,
}

/// A page of instances, and the start of the next page.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Page {
    pub instances: Vec<Row>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<Continuation>,
    /// The number of instances that the query returned, before the filters without an index.
    #[cfg(feature = "dashboard")]
    #[serde(skip)]
    pub examined: usize,
    /// The instances whose start is queued, in a list without filters.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unstarted: Vec<Unstarted>,
}

impl Row {
    pub(crate) fn of(instance: Instance) -> Self {
        Self {
            state: state(&instance),
            id: instance.instance_id,
            orchestration: instance.orchestration_name,
            version: instance.orchestration_version,
            status: instance.status,
            custom_status: instance.custom_status,
            execution: instance.current_execution_id,
            parent: instance.parent_instance_id,
            created_at: instance.created_at,
            updated_at: instance.updated_at,
            completed_at: instance.completed_at,
            is_unbegun: false,
            paused: instance.paused,
            held: instance.held,
            request_units: instance.request_units,
            error: None,
            waits_for: None,
            attributes: instance.attributes,
        }
    }
}

impl Row {
    /// Reads the row of an instance that exists, or whose start is queued.
    ///
    /// # Errors
    /// Fails with a finding when there is neither.
    pub(crate) async fn read(orchestrations: &Orchestrations, id: &str) -> Result<Self, Failure> {
        let missing = match orchestrations.instance(id).await {
            Ok(instance) => return Ok(Self::of(instance)),
            Err(missing) if missing.exit == Exit::Finding => missing,
            Err(failure) => return Err(failure),
        };
        let queued = orchestrations.queued(id).await?;
        let start = queued.into_iter().find_map(|message| {
            Start::of(message.work_item.header()).map(|start| (start, message.enqueued_at))
        });
        let found = orchestrations.container.read(&InstanceKey::new(id)).await?;
        match (found.map(|found| found.document), start) {
            // Its first turn has been committed since the first read.
            (Some(instance), _) if instance.is_created() => {
                Ok(Self::of(orchestrations.readable(instance)))
            }
            (pending, Some((start, at))) => Ok(Self::unbegun(start, at, pending)),
            (_, None) => Err(missing),
        }
    }

    /// Returns the row of an instance that has not begun, from its start and from its document, if it has one.
    pub(crate) fn unbegun(start: Start, queued_at: Timestamp, pending: Option<Instance>) -> Self {
        let instance = pending.unwrap_or_else(|| Instance::pending(&start.instance, queued_at));
        Self {
            orchestration: start.orchestration,
            version: start.version,
            is_unbegun: true,
            ..Self::of(instance)
        }
    }
}

impl ListFilter {
    /// Returns the composite index that the sort needs and the policy lacks.
    pub(crate) fn missing_index(
        &self,
        policy: &IndexingPolicy,
    ) -> Result<Option<Vec<CompositeIndexPath>>, Failure> {
        let explained = Explain::<Durable>::explain(&self.query()?, policy);
        let missing = self.sort.iter().map(|term| CompositeIndexPath {
            path: format!("/{}", term.field.replace('.', "/")),
            order: term.direction,
        });
        Ok((!explained.refused.is_empty()).then(|| missing.collect()))
    }

    fn query(&self) -> Result<Query<Instance>, Failure> {
        let order = if !self.sort.is_empty() {
            let order = Order::from_criteria(&self.sort);
            order.map_err(|error| Failure::usage(error.to_string()))?
        } else if self.oldest_first {
            Instance::BY_CREATED.into()
        } else {
            Instance::BY_CREATED.reversed()
        };
        let query = Query::<Instance>::across_partitions();
        Ok(query.filter(self.filter()?).order_by(order))
    }

    fn filter(&self) -> Result<Filter<Instance>, Failure> {
        // A pending instance is a lock without an orchestration, before the first commit.
        let mut filter = match &*self.statuses {
            [] => Instance::STATUS.ne(Status::Pending),
            [one] => Instance::STATUS.eq(one.clone()),
            several => Instance::STATUS.is_in(several.iter().cloned()),
        };
        if let Some(parent) = &self.parent {
            filter = filter & Instance::PARENT_INSTANCE_ID.eq(&**parent);
        }
        if let Some(after) = self.created_after {
            filter = filter & Instance::CREATED_AT.ge(after);
        }
        if let Some(before) = self.created_before {
            filter = filter & Instance::CREATED_AT.le(before);
        }
        if let Some(before) = self.ended_before {
            filter = filter & Instance::COMPLETED_AT.lt(before);
        }
        if self.roots {
            filter = filter & Instance::PARENT_INSTANCE_ID.is_none();
        }
        let attributes = Filter::from_criteria(&self.attributes);
        Ok(filter & attributes.map_err(|error| Failure::usage(error.to_string()))?)
    }
}

impl ListFilter {
    /// Whether an instance of an export passes the filter.
    pub(crate) fn matches(&self, instance: &Instance) -> bool {
        let mut attributes = self.attributes.iter();
        (self.statuses.is_empty() || self.statuses.contains(&instance.status))
            && self
                .parent
                .as_ref()
                .is_none_or(|wanted| instance.parent_instance_id.as_ref() == Some(wanted))
            && self
                .created_after
                .is_none_or(|after| instance.created_at >= after)
            && self
                .created_before
                .is_none_or(|before| instance.created_at <= before)
            && self
                .ended_before
                .is_none_or(|before| instance.completed_at.is_some_and(|ended| ended < before))
            && (!self.roots || instance.parent_instance_id.is_none())
            && attributes.all(|condition| meets(&instance.attributes, condition))
            && self.unindexed.matches(instance)
    }
}

impl UnindexedFilter {
    fn matches(&self, instance: &Instance) -> bool {
        let (name, id) = (&*instance.orchestration_name, &*instance.instance_id);
        let has = |text: &String| id.contains(&**text) || name.contains(&**text);
        let version = instance.orchestration_version.as_ref();
        self.orchestration
            .as_ref()
            .is_none_or(|wanted| wanted == name)
            && self.custom_status.as_ref().is_none_or(|wanted| {
                let status = instance.custom_status.as_ref();
                status.is_some_and(|status| status.contains(&**wanted))
            })
            && self
                .version
                .as_ref()
                .is_none_or(|wanted| Some(wanted) == version)
            && self.text.as_ref().is_none_or(has)
            && (!self.paused || instance.paused.is_some())
            && (!self.held || instance.held.is_some())
    }
}

/// The instances of a page.
struct Found {
    instances: Vec<Instance>,
    next: Option<Continuation>,
    #[cfg(feature = "dashboard")]
    examined: usize,
}

impl Found {
    fn page(self, waits: Vec<Option<WaitsFor>>) -> Page {
        let waits = waits.into_iter().chain(std::iter::repeat(None));
        let rows = self.instances.into_iter().zip(waits);
        let rows = rows.map(|(instance, waits_for)| Row {
            error: error_of(&instance),
            waits_for,
            ..Row::of(instance)
        });
        Page {
            instances: rows.collect(),
            next: self.next,
            #[cfg(feature = "dashboard")]
            examined: self.examined,
            unstarted: Vec::new(),
        }
    }
}

/// Returns the error of a failed instance, cut for a list.
fn error_of(instance: &Instance) -> Option<String> {
    let output = instance.output.as_ref()?;
    (instance.status == Status::Failed).then(|| short(&shown(output), LONGEST_ERROR))
}

/// Reads a page of the instances that match a filter.
pub(crate) async fn list(
    orchestrations: &Orchestrations,
    filter: &ListFilter,
    rows: usize,
    from: Option<Continuation>,
) -> Result<Page, Failure> {
    let found = find(orchestrations, filter, rows, from).await?;
    Ok(found.page(Vec::new()))
}

/// Reads a page of the instances that match a filter, with what the running ones wait for.
pub(crate) async fn list_with_waits(
    orchestrations: &Orchestrations,
    filter: &ListFilter,
    rows: usize,
    from: Option<Continuation>,
) -> Result<Page, Failure> {
    let found = find(orchestrations, filter, rows, from).await?;
    let waits = standstill::of(orchestrations, &found.instances).await?;
    Ok(found.page(waits))
}

async fn find(
    orchestrations: &Orchestrations,
    filter: &ListFilter,
    rows: usize,
    from: Option<Continuation>,
) -> Result<Found, Failure> {
    let query = filter.query()?;
    let (mut instances, mut examined, mut from) = (Vec::new(), 0, from);
    loop {
        // A page holds the missing rows only, so that the continuation points behind the last
        // match.
        let size = rows - instances.len();
        let page = orchestrations
            .container
            .query(query.clone())
            .page(size, from.as_ref())
            .await?;
        examined += page.rows.len();
        let read = page.rows.into_iter();
        let read = read.map(|stored| orchestrations.readable(stored.document));
        instances.extend(read.filter(|one| filter.unindexed.matches(one)));
        from = page.next;
        if from.is_none() || instances.len() >= rows || examined >= MOST_EXAMINED {
            return Ok(Found {
                instances,
                next: from,
                #[cfg(feature = "dashboard")]
                examined,
            });
        }
    }
}

/// Reads all instances that match a filter. Calls `progress` with the number read so far.
pub(crate) async fn list_all(
    orchestrations: &Orchestrations,
    filter: &ListFilter,
    mut progress: impl FnMut(usize) -> Result<(), Failure>,
) -> Result<Page, Failure> {
    let mut all = list(orchestrations, filter, LARGE_PAGE, None).await?;
    while let Some(from) = all.next.take() {
        progress(all.instances.len())?;
        let page = list(orchestrations, filter, LARGE_PAGE, Some(from)).await?;
        all.instances.extend(page.instances);
        all.next = page.next;
    }
    Ok(all)
}

impl fmt::Display for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.instances.is_empty() {
            writeln!(f, "no instances")?;
        } else {
            let rows: Vec<Vec<String>> = self.instances.iter().map(Row::cells).collect();
            let titles = [
                "CREATED",
                "STATUS",
                "ORCHESTRATION",
                "ATTRIBUTES",
                "INSTANCE",
            ];
            f.write_str(&table(&titles, &rows))?;
        }
        Waiting::of(&self.unstarted).fmt(f)?;
        match &self.next {
            // The position is long, so only JSON shows it.
            Some(_) => writeln!(f, "more instances follow; --all lists them"),
            None => Ok(()),
        }
    }
}

impl Row {
    fn cells(&self) -> Vec<String> {
        let status = match (&self.waits_for, &self.error) {
            (Some(waits_for), _) if waits_for.kind.is_of_work() => waits_for.to_string(),
            (_, Some(error)) => format!("{}: {}", self.state, short(error, 40)),
            _ => self.state.clone(),
        };
        let status = match self.execution {
            1 => status,
            execution => format!("{status} #{execution}"),
        };
        let attributes = self.attributes.iter();
        let attributes = attributes.map(|(name, value)| match serde_json::to_value(value) {
            Ok(Value::String(text)) => format!("{name}={text}"),
            Ok(other) => format!("{name}={other}"),
            Err(_) => name.clone(),
        });
        vec![
            self.created_at.to_string(),
            status,
            short(&self.orchestration, 40),
            short(&attributes.collect::<Vec<_>>().join(" "), 80),
            short(&self.id, 120),
        ]
    }
}
