//! Pages of instances, by the time of their creation.

use std::fmt;

use cdb_client::query::Continuation;
use cdb_provider::documents::Status;
use cdb_provider::observe::{InstancePage, InstanceQuery, Unstarted};
use serde::Serialize;

use super::Row;
use crate::container::Orchestrations;
use crate::exit::Failure;
use crate::output::{short, table};
use crate::view::queues::unstarted::Waiting;

/// The number of instances that are read at a time when all are read.
const LARGE_PAGE: usize = 1_000;

/// The statuses of running instances. Between two executions, an instance is running.
pub(crate) const RUNNING: [Status; 2] = [Status::Running, Status::ContinuedAsNew];

/// The characters of an error in a list.
const LONGEST_ERROR: usize = 300;

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

impl Page {
    fn of(page: InstancePage) -> Self {
        let instances = page.instances.into_iter().map(|mut instance| {
            instance.error = instance.error.map(|error| short(&error, LONGEST_ERROR));
            Row::of(instance)
        });
        Self {
            instances: instances.collect(),
            next: page.next,
            #[cfg(feature = "dashboard")]
            examined: page.examined,
            unstarted: Vec::new(),
        }
    }
}

/// Reads a page of the instances that match a filter.
pub(crate) async fn list(
    orchestrations: &Orchestrations,
    filter: &InstanceQuery,
    rows: usize,
    from: Option<Continuation>,
) -> Result<Page, Failure> {
    let observe = orchestrations.provider.observe();
    Ok(Page::of(observe.instances(filter, rows, from).await?))
}

/// Reads a page of the instances that match a filter, with what the running ones wait for.
pub(crate) async fn list_with_waits(
    orchestrations: &Orchestrations,
    filter: &InstanceQuery,
    rows: usize,
    from: Option<Continuation>,
) -> Result<Page, Failure> {
    let observe = orchestrations.provider.observe();
    let page = observe.instances_with_waits(filter, rows, from).await?;
    Ok(Page::of(page))
}

/// Reads all instances that match a filter. Calls `progress` with the number read so far.
pub(crate) async fn list_all(
    orchestrations: &Orchestrations,
    filter: &InstanceQuery,
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
