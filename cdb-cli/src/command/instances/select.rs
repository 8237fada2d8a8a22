//! The filters that select instances, and `cdb instances list`.

use std::collections::BTreeSet;
use std::str::FromStr;
use std::time::Duration;

use cdb_client::query::Continuation;
use cdb_model::Timestamp;
use cdb_model::query::{Criterion, Operator, SortCriterion};
use cdb_provider::documents::Status;
use cdb_provider::observe::InstanceQuery;
use clap::{Args, ValueEnum};
use serde_json::Value;

use super::span::parse_span;
use crate::connection::Connection;
use crate::container::Orchestrations;
use crate::exit::{Exit, Failure};
use crate::model::Model;
use crate::output::{Console, counted};
use crate::view::instances::attribute_filter;
use crate::view::instances::{RUNNING, list, list_all, list_with_waits};

/// The number of newest instances whose attributes are named.
const NEWEST: usize = 50;

#[derive(Debug, Args)]
pub(super) struct List {
    /// Maximum number of instances
    #[arg(long, value_name = "COUNT", default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=1000))]
    limit: u16,
    /// List all instances
    #[arg(long, conflicts_with_all = ["limit", "from"])]
    all: bool,
    /// Start of the page: `next` of the previous page's JSON
    #[arg(long, value_name = "TEXT")]
    from: Option<Continuation>,
    /// The order: `created` (newest first), or search attributes: total, or -total for the largest
    /// first, or customer,-total, for which the container needs a composite index. A sort by one
    /// attribute leaves out the instances without it
    #[arg(
        long,
        value_name = "ORDER",
        default_value = "created",
        allow_hyphen_values = true
    )]
    sort: Sort,
    #[command(flatten, next_help_heading = "Filters")]
    filters: Filters,
}

/// The orders of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Sort {
    Created,
    Attributes(Vec<SortCriterion>),
}

impl FromStr for Sort {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "created" => Ok(Self::Created),
            names => {
                let terms = names.split(',').map(attribute_filter::sort_term);
                Ok(Self::Attributes(terms.collect::<Result<_, _>>()?))
            }
        }
    }
}

/// The filters of instances. All given filters have to match.
#[derive(Debug, Args)]
pub(super) struct Filters {
    /// Only instances in this state; can be repeated
    #[arg(long, value_enum)]
    pub(super) status: Vec<State>,
    /// Only sub-orchestrations of this instance
    #[arg(long, value_name = "INSTANCE")]
    pub(super) parent: Option<String>,
    /// Only instances older than this: 90s, 15m, 24h, 7d
    #[arg(long, value_name = "SPAN", value_parser = parse_span)]
    older_than: Option<Duration>,
    /// Only instances newer than this
    #[arg(long, value_name = "SPAN", value_parser = parse_span)]
    newer_than: Option<Duration>,
    /// Only instances that ended longer ago than this
    #[arg(long, value_name = "SPAN", value_parser = parse_span)]
    ended_before: Option<Duration>,
    /// Only instances with this search attribute; can be repeated. The operators are = != < <= > >=.
    /// A number, true or false is compared as such: total>100; quote a string that looks like one:
    /// 'code="100"'
    #[arg(long = "where", value_name = "NAME=VALUE", value_parser = attribute_filter::parse)]
    attributes: Vec<Criterion>,
    /// Only instances of this orchestration. No index serves this filter, nor the next three: the
    /// command reads all instances that pass the other filters
    #[arg(long, value_name = "NAME")]
    orchestration: Option<String>,
    /// Only instances of this version of the orchestration
    #[arg(long, value_name = "VERSION")]
    orchestration_version: Option<String>,
    /// Only instances with this text in the id or the orchestration's name
    #[arg(long = "match", value_name = "TEXT")]
    text: Option<String>,
    /// Only paused instances
    #[arg(long)]
    paused: bool,
    /// Only instances that wait for a runtime with other code
    #[arg(long)]
    held: bool,
}

// No docs on the variants: clap would show the whole help in its long form.
/// The states of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum State {
    Running,
    Completed,
    Failed,
}

impl State {
    /// Returns the stored statuses of instances in this state.
    fn statuses(self) -> &'static [Status] {
        match self {
            Self::Running => &RUNNING,
            Self::Completed => &[Status::Completed],
            Self::Failed => &[Status::Failed],
        }
    }
}

impl Filters {
    /// Whether no filter was given.
    pub(super) fn is_empty(&self) -> bool {
        self.status.is_empty()
            && self.parent.is_none()
            && self.older_than.is_none()
            && self.newer_than.is_none()
            && self.ended_before.is_none()
            && self.attributes.is_empty()
            && self.orchestration.is_none()
            && self.orchestration_version.is_none()
            && self.text.is_none()
            && !self.paused
            && !self.held
    }

    fn statuses(&self) -> Vec<Status> {
        let states = self.status.iter();
        states.flat_map(|state| state.statuses()).cloned().collect()
    }

    /// Returns the filter at a time, from which ages count.
    pub(super) fn at(&self, now: Timestamp) -> InstanceQuery {
        InstanceQuery {
            statuses: self.statuses(),
            parent: self.parent.clone(),
            created_before: self.older_than.map(|age| now - age),
            created_after: self.newer_than.map(|age| now - age),
            ended_before: self.ended_before.map(|age| now - age),
            attributes: self.attributes.clone(),
            orchestration: self.orchestration.clone(),
            version: self.orchestration_version.clone(),
            text: self.text.clone(),
            paused: self.paused,
            held: self.held,
            ..InstanceQuery::default()
        }
    }
}

impl Filters {
    /// Remarks on conditions about attributes that no instance has, when no instance was found.
    pub(super) async fn explain_empty(
        &self,
        orchestrations: &Orchestrations,
        console: &mut Console<'_>,
    ) -> Result<(), Failure> {
        for condition in &self.attributes {
            // A missing attribute differs from no value: the comparison has no result.
            let is_defined = Criterion {
                operator: Operator::Ne,
                value: Value::Null,
                ..condition.clone()
            };
            let anywhere = InstanceQuery {
                attributes: vec![is_defined],
                ..InstanceQuery::default()
            };
            if !list(orchestrations, &anywhere, 1, None)
                .await?
                .instances
                .is_empty()
            {
                continue;
            }
            let newest = list(orchestrations, &InstanceQuery::default(), NEWEST, None).await?;
            let known = newest
                .instances
                .iter()
                .flat_map(|row| row.attributes.keys());
            let known: BTreeSet<&str> = known.map(String::as_str).collect();
            let known = if known.is_empty() {
                "none".to_owned()
            } else {
                Vec::from_iter(known).join(", ")
            };
            let name = attribute_filter::name(condition);
            console.remark(&format!(
                "no instance has the search attribute `{name}`; the newest instances have {known}"
            ))?;
        }
        Ok(())
    }
}

impl List {
    pub(super) async fn run(
        &self,
        orchestrations: &Orchestrations,
        connection: &Connection,
        model: &Model,
        console: &mut Console<'_>,
    ) -> Result<Exit, Failure> {
        let mut filter = self.filters.at(orchestrations.container.now());
        if let Sort::Attributes(terms) = &self.sort {
            filter.sort.clone_from(terms);
            check_index(&filter, connection, model).await?;
        }
        let mut page = if self.all {
            let progress = |read| {
                let text = format!("read {}", counted(read as u64, "instance"));
                Ok(console.progress(text)?)
            };
            list_all(orchestrations, &filter, progress).await?
        } else {
            let rows = usize::from(self.limit);
            list_with_waits(orchestrations, &filter, rows, self.from.clone()).await?
        };
        if page.instances.is_empty() && self.from.is_none() {
            self.filters.explain_empty(orchestrations, console).await?;
        }
        if self.filters.is_empty() && self.from.is_none() {
            page.unstarted = orchestrations.provider.observe().unstarted().await?;
        }
        console.answer(&page)?;
        Ok(Exit::Ok)
    }
}

/// Checks that an index of the container serves the sort: the service refuses it otherwise, without
/// naming the index.
async fn check_index(
    filter: &InstanceQuery,
    connection: &Connection,
    model: &Model,
) -> Result<(), Failure> {
    let live = model
        .live_definition(&connection.database()?, &connection.container)
        .await?;
    let missing = filter.missing_index(live.indexing_policy());
    let missing = missing.map_err(|error| Failure::usage(error.to_string()))?;
    let Some(missing) = missing else {
        return Ok(());
    };
    let container = &connection.container;
    Err(match &*missing {
        [one] => Failure {
            remedy: Some("run {cdb} policy apply"),
            ..Failure::usage(format!(
                "no index of container `{container}` covers {}",
                one.path
            ))
        },
        several => Failure::usage(format!(
            "no composite index of container `{container}` serves this sort; add this one to `compositeIndexes` of its indexing policy: {}",
            serde_json::to_string(several).expect("strings")
        )),
    })
}
