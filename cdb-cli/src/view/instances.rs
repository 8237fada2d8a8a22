//! Instances by the page, newest first.

use std::fmt;

use cdb_client::{ContainerClient, Continuation};
use cdb_model::{Filter, Query, Timestamp};
use cdb_provider::documents::{Durable, Instance, Status};
use serde::Serialize;

use crate::exit::Failure;
use crate::output::{short, table};
use crate::time::utc;

/// How many instances a search by text looks at before it gives back what it has.
const MOST_EXAMINED: usize = 5_000;

/// Which instances.
#[derive(Clone, Debug, Default)]
pub(crate) struct ListFilter {
    /// In one of these states; in any when empty.
    pub statuses: Vec<Status>,
    /// Started by this instance.
    pub parent: Option<String>,
    pub created_after: Option<Timestamp>,
    pub created_before: Option<Timestamp>,
    /// Within the id or the orchestration's name. No index serves that: it is looked for in what the others leave.
    pub text: Option<String>,
}

/// One instance of a list.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Row {
    pub id: String,
    pub orchestration: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    pub status: Status,
    pub execution: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Timestamp>,
}

/// Some instances, and where the next ones begin.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Page {
    pub instances: Vec<Row>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<Continuation>,
}

impl Row {
    pub(crate) fn of(instance: Instance) -> Self {
        Self {
            id: instance.instance_id,
            orchestration: instance.orchestration_name,
            version: instance.orchestration_version,
            status: instance.status,
            execution: instance.current_execution_id,
            parent: instance.parent_instance_id,
            created_at: instance.created_at,
            updated_at: instance.updated_at,
            completed_at: instance.completed_at,
        }
    }
}

impl ListFilter {
    fn filter(&self) -> Filter<Instance> {
        // Before the first commit there is only a lock, which is nobody's business.
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
        filter
    }

    fn matches(&self, instance: &Instance) -> bool {
        self.text.as_ref().is_none_or(|text| {
            instance.instance_id.contains(&**text) || instance.orchestration_name.contains(&**text)
        })
    }
}

/// A page of the instances that are wanted.
pub(crate) async fn list(
    container: &ContainerClient<Durable>,
    wanted: &ListFilter,
    rows: usize,
    from: Option<Continuation>,
) -> Result<Page, Failure> {
    let query = Query::<Instance>::across_partitions()
        .filter(wanted.filter())
        .order_by(Instance::BY_CREATED.desc());
    let (mut instances, mut examined, mut from) = (Vec::new(), 0, from);
    loop {
        // What is looked for by text is looked for in large pages; those that fit decide where the answer ends.
        let size = rows - instances.len();
        let page = container
            .query(query.clone())
            .page(size, from.as_ref())
            .await?;
        examined += page.rows.len();
        let fitting = page.rows.into_iter().map(|stored| stored.document);
        instances.extend(
            fitting
                .filter(|instance| wanted.matches(instance))
                .map(Row::of),
        );
        from = page.next;
        if from.is_none() || instances.len() >= rows || examined >= MOST_EXAMINED {
            let next = from;
            return Ok(Page { instances, next });
        }
    }
}

impl fmt::Display for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.instances.is_empty() {
            writeln!(f, "no instances")?;
        } else {
            let rows: Vec<Vec<String>> = self.instances.iter().map(Row::cells).collect();
            f.write_str(&table(
                &["CREATED", "STATUS", "ORCHESTRATION", "INSTANCE"],
                &rows,
            ))?;
        }
        match &self.next {
            Some(next) => writeln!(f, "more: --from {next}"),
            None => Ok(()),
        }
    }
}

impl Row {
    fn cells(&self) -> Vec<String> {
        let status = match self.execution {
            1 => self.status.to_string(),
            execution => format!("{} #{execution}", self.status),
        };
        vec![
            utc(self.created_at),
            status,
            short(&self.orchestration, 40),
            short(&self.id, 120),
        ]
    }
}
