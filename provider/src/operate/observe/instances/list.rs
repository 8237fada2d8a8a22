//! Pages of instances.

use cdb_client::query::Continuation;

use super::super::ObserveError;
use super::query::InstanceQuery;
use super::row::{ObservedInstance, StoredText, readable};
use super::standstill;
use super::waits_for::WaitsFor;
use crate::stored::Store;
use crate::stored::documents::{Instance, Status};

/// The number of instances that a condition without an index reads before it returns what it found.
const MOST_EXAMINED: usize = 5_000;

/// A page of instances, and the start of the next page.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct InstancePage {
    /// The instances.
    pub instances: Vec<ObservedInstance>,
    /// The start of the next page. There may be one although this page has no instances: conditions without an index
    /// compare at most 5,000 instances per page.
    pub next: Option<Continuation>,
    /// The number of instances that were read, before the conditions without an index.
    pub examined: usize,
}

/// The instances of a page.
struct Found {
    instances: Vec<Instance>,
    next: Option<Continuation>,
    examined: usize,
}

impl Found {
    fn page(self, waits: Vec<Option<WaitsFor>>) -> InstancePage {
        let waits = waits.into_iter().chain(std::iter::repeat(None));
        let rows = self.instances.into_iter().zip(waits);
        let rows = rows.map(|(instance, waits_for)| ObservedInstance {
            error: error_of(&instance),
            waits_for,
            ..ObservedInstance::of(instance)
        });
        InstancePage {
            instances: rows.collect(),
            next: self.next,
            examined: self.examined,
        }
    }
}

fn error_of(instance: &Instance) -> Option<String> {
    let output = instance.output.as_ref()?;
    (instance.status == Status::Failed).then(|| StoredText::of(output).to_string())
}

/// Reads a page of the instances that meet conditions.
pub(in super::super) async fn page(
    store: &Store,
    query: &InstanceQuery,
    rows: usize,
    from: Option<Continuation>,
) -> Result<InstancePage, ObserveError> {
    Ok(find(store, query, rows, from).await?.page(Vec::new()))
}

/// Reads a page of the instances that meet conditions, with what the running ones wait for.
pub(in super::super) async fn page_with_waits(
    store: &Store,
    query: &InstanceQuery,
    rows: usize,
    from: Option<Continuation>,
) -> Result<InstancePage, ObserveError> {
    let found = find(store, query, rows, from).await?;
    let waits = standstill::of(store, &found.instances).await?;
    Ok(found.page(waits))
}

async fn find(
    store: &Store,
    wanted: &InstanceQuery,
    rows: usize,
    from: Option<Continuation>,
) -> Result<Found, ObserveError> {
    let query = wanted.to_query()?;
    let (mut instances, mut examined, mut from) = (Vec::new(), 0, from);
    loop {
        // A page holds the missing rows only, so that the continuation points behind the last match.
        let size = rows - instances.len();
        let page = store.container.query(query.clone());
        let page = page.page(size, from.as_ref()).await?;
        examined += page.rows.len();
        let read = page.rows.into_iter();
        let read = read.map(|stored| readable(&store.payloads, stored.document));
        instances.extend(read.filter(|one| wanted.matches_unindexed(one)));
        from = page.next;
        if from.is_none() || instances.len() >= rows || examined >= MOST_EXAMINED {
            return Ok(Found {
                instances,
                next: from,
                examined,
            });
        }
    }
}
