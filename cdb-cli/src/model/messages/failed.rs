//! The failed messages of all sources of a container.

use std::sync::Arc;

use cdb_client::ContainerClient;
use cdb_model::Timestamp;
use cdb_provider::documents::Durable;

use super::kind::{Action, Filter, List, Outcome, Source, State};
use super::name::MessageName;
use super::paging::{self, MessagePage, PageStart};
use super::row::MessageDetail;
use super::source::MessageSource;
use crate::exit::Failure;

/// The number of names that one request reads.
const NAMES: usize = 100;

/// The failed messages of a container.
#[derive(Clone)]
pub(crate) struct FailedMessages {
    /// The source of the service's time, whatever documents the container holds.
    pub container: ContainerClient<Durable>,
    /// The name of the container's type.
    pub model: &'static str,
    pub sources: Vec<Arc<dyn MessageSource>>,
}

impl FailedMessages {
    pub(crate) fn now(&self) -> Timestamp {
        self.container.now()
    }

    pub(crate) fn of(&self, source: Source) -> Option<&dyn MessageSource> {
        let mut sources = self.sources.iter().map(|found| &**found);
        sources.find(|found| found.source() == source)
    }

    fn required(&self, source: Source) -> Result<&dyn MessageSource, Failure> {
        let found = self.of(source);
        found.ok_or_else(|| Failure::lacks(self.model, source.what()))
    }

    /// Returns the lists that a filter includes, those of dead messages first.
    fn lists(&self, filter: Filter) -> Result<Vec<(&dyn MessageSource, List)>, Failure> {
        let sources: Vec<&dyn MessageSource> = match filter.source {
            Some(source) => vec![self.required(source)?],
            None => self.sources.iter().map(|found| &**found).collect(),
        };
        if sources.is_empty() {
            return Err(Failure::usage(format!(
                "`{}` holds neither orchestrations nor messages between partitions nor ordered work, so no message of it can fail; choose another container with --container",
                self.model
            )));
        }
        let dead = sources.iter().map(|source| (*source, List::Dead));
        let retrying = sources.iter().flat_map(|source| {
            let steps = source.steps().iter();
            steps.map(move |step| (*source, List::Retrying(*step)))
        });
        let lists = dead.chain(retrying);
        Ok(lists.filter(|(_, list)| filter.includes(*list)).collect())
    }

    /// Reads a page of all lists that the filter includes.
    ///
    /// # Errors
    /// When the container holds no messages that the filter includes, or a query fails.
    pub(crate) async fn page(
        &self,
        filter: Filter,
        rows: usize,
        from: Option<PageStart>,
    ) -> Result<MessagePage, Failure> {
        let (messages, next) = paging::page(&self.lists(filter)?, rows, from).await?;
        let now = self.now();
        Ok(MessagePage {
            messages,
            next,
            now,
        })
    }

    /// Reads the names of all dead messages, or of those of one source.
    pub(crate) async fn dead(&self, source: Option<Source>) -> Result<Vec<MessageName>, Failure> {
        let filter = Filter {
            state: Some(State::Dead),
            source,
            failed: None,
        };
        let (mut names, mut from) = (Vec::new(), None);
        loop {
            let page = self.page(filter, NAMES, from).await?;
            names.extend(page.messages.into_iter().map(|row| row.name));
            from = page.next;
            if from.is_none() {
                return Ok(names);
            }
        }
    }

    /// Reads a message. Returns `None` when it is neither dead nor retried.
    ///
    /// # Errors
    /// When the container holds no messages of this kind, or the read fails.
    pub(crate) async fn find(&self, name: &MessageName) -> Result<Option<MessageDetail>, Failure> {
        self.required(name.source())?.find(name).await
    }

    /// Redrives or discards a dead message.
    ///
    /// # Errors
    /// As [`find`](Self::find), and when the service refuses.
    pub(crate) async fn apply(
        &self,
        name: &MessageName,
        action: Action,
    ) -> Result<Outcome, Failure> {
        self.required(name.source())?.apply(name, action).await
    }
}
