//! The instances that a command changes: by id, or by filters.

use std::collections::HashSet;

use cdb_client::query::Continuation;
use cdb_provider::documents::Status;
use cdb_provider::observe::InstanceQuery;
use clap::Args;

use super::select::{Filters, State};
use crate::command::confirm::{Plan, PlanDigest, PlanItem, check_planned};
use crate::container::Orchestrations;
use crate::exit::{Exit, Failure};
use crate::output::Console;
use crate::view::instances::{Row, list};

/// The number of selected instances that a plan lists.
const LISTED: usize = 10;

/// The number of instances that are read and changed at a time.
const BATCH: usize = 100;

/// Returns what identifies an instance in its state.
pub(super) fn item(row: &Row) -> PlanItem {
    let created = row.created_at.as_millis().to_string();
    PlanItem::of(&[&row.id, &created, &row.status.to_string()])
}

/// The states of instances that have ended.
pub(super) const ENDED: [Status; 2] = [Status::Completed, Status::Failed];

#[derive(Debug, Args)]
pub(super) struct Chosen {
    /// Instance ids; or select instances with filters
    instances: Vec<String>,
    #[command(flatten, next_help_heading = "Filters")]
    filters: Filters,
}

/// The chosen instances, in batches.
pub(super) struct Batches<'a> {
    orchestrations: &'a Orchestrations,
    remaining: Remaining<'a>,
    skips_missing: bool,
    /// Whether named instances are included whose start is queued.
    with_unbegun: bool,
    /// Why named instances were skipped.
    missing: Vec<String>,
}

enum Remaining<'a> {
    Ids(&'a [String]),
    Selected(Box<InstanceQuery>, Option<Continuation>),
    None,
}

impl Chosen {
    /// Returns the chosen instances.
    ///
    /// # Errors
    /// When ids and filters are given, or neither.
    pub(super) fn batches<'a>(
        &'a self,
        orchestrations: &'a Orchestrations,
    ) -> Result<Batches<'a>, Failure> {
        let remaining = match (self.instances.is_empty(), self.filters.is_empty()) {
            (false, true) => Remaining::Ids(&self.instances),
            (true, false) => {
                let filter = self.filters.at(orchestrations.container.now());
                Remaining::Selected(Box::new(filter), None)
            }
            (false, false) => {
                return Err(Failure::usage(
                    "ids and filters are given; name the instances or select them",
                ));
            }
            (true, true) => {
                return Err(Failure::usage(
                    "no instance is given; name instances, or select them with filters such as --status failed",
                ));
            }
        };
        Ok(Batches {
            orchestrations,
            remaining,
            skips_missing: false,
            with_unbegun: false,
            missing: Vec::new(),
        })
    }

    /// Whether the instances are named, not selected.
    pub(super) fn are_named(&self) -> bool {
        !self.instances.is_empty()
    }

    /// Whether one instance is named.
    pub(super) fn is_single(&self) -> bool {
        self.instances.len() == 1
    }

    /// Remarks on filters that no instance can meet, when none was found.
    pub(super) async fn explain_empty(
        &self,
        orchestrations: &Orchestrations,
        console: &mut Console<'_>,
    ) -> Result<(), Failure> {
        self.filters.explain_empty(orchestrations, console).await
    }

    /// Whether the filters ask for instances in this state.
    pub(super) fn asks_for(&self, state: State) -> bool {
        self.filters.status.contains(&state)
    }
}

impl Batches<'_> {
    /// Limits a selection to instances without a parent, unless it names the parent: a command
    /// that includes sub-orchestrations does not select them too.
    #[must_use]
    pub(super) fn roots(mut self) -> Self {
        if let Remaining::Selected(filter, _) = &mut self.remaining {
            filter.roots = filter.parent.is_none();
        }
        self
    }

    /// Limits a selection to instances in one of the states. An empty selection of states means
    /// any.
    #[must_use]
    pub(super) fn only(mut self, states: &[Status]) -> Self {
        if let Remaining::Selected(filter, _) = &mut self.remaining {
            if filter.statuses.is_empty() {
                filter.statuses = states.to_vec();
            } else {
                filter.statuses.retain(|status| states.contains(status));
            }
            if filter.statuses.is_empty() {
                self.remaining = Remaining::None;
            }
        }
        self
    }

    /// Limits a selection to paused instances.
    #[must_use]
    pub(super) fn paused(mut self) -> Self {
        if let Remaining::Selected(filter, _) = &mut self.remaining {
            filter.paused = true;
        }
        self
    }

    /// Skips instances that are missing, if several are named: an interrupted run has deleted them, and
    /// the next one must not stop at them.
    #[must_use]
    pub(super) fn skipping_missing(mut self) -> Self {
        self.skips_missing = matches!(self.remaining, Remaining::Ids([_, _, ..]));
        self
    }

    /// Includes named instances that have not begun: only their start is queued.
    #[must_use]
    pub(super) fn with_unbegun(mut self) -> Self {
        self.with_unbegun = true;
        self
    }

    /// Returns why named instances were skipped by the calls of `next`.
    pub(super) fn take_missing(&mut self) -> Vec<String> {
        std::mem::take(&mut self.missing)
    }

    /// Reads the next instances. A batch may be empty; `None` is the end. Ids are one batch, so
    /// that a missing instance is reported before any change. An id that is given twice counts once.
    pub(super) async fn next(&mut self) -> Result<Option<Vec<Row>>, Failure> {
        match std::mem::replace(&mut self.remaining, Remaining::None) {
            Remaining::None => Ok(None),
            Remaining::Ids(ids) => {
                let (mut rows, mut known) = (Vec::with_capacity(ids.len()), HashSet::new());
                for id in ids.iter().filter(|id| known.insert(*id)) {
                    let found = if self.with_unbegun {
                        self.orchestrations.begun_or_queued(id).await
                    } else {
                        self.orchestrations.instance(id).await
                    };
                    match found {
                        Ok(instance) => rows.push(Row::of(instance)),
                        Err(missing) if self.skips_missing && missing.exit == Exit::Finding => {
                            self.missing.push(missing.message);
                        }
                        Err(failure) => return Err(failure),
                    }
                }
                Ok(Some(rows))
            }
            Remaining::Selected(filter, from) => {
                let page = list(self.orchestrations, &filter, BATCH, from).await?;
                if page.next.is_some() {
                    self.remaining = Remaining::Selected(filter, page.next);
                }
                Ok(Some(page.instances))
            }
        }
    }

    /// Reads all instances and returns those that a plan covers.
    ///
    /// # Errors
    /// When other instances are chosen now, or the instances are named.
    pub(super) async fn planned(mut self, planned: &str) -> Result<HashSet<PlanItem>, Failure> {
        if let Remaining::Ids(_) = self.remaining {
            check_planned(None, planned)?;
        }
        let (mut digest, mut items) = (PlanDigest::default(), HashSet::new());
        while let Some(batch) = self.next().await? {
            for item in batch.iter().map(item) {
                digest.add(item);
                items.insert(item);
            }
        }
        check_planned(Some(&digest.finish()), planned)?;
        Ok(items)
    }

    /// Reads all instances and returns the plan of a command.
    pub(super) async fn plan(&mut self, action: &'static str) -> Result<Plan, Failure> {
        let (most, mut digest) = match self.remaining {
            Remaining::Ids(_) => (usize::MAX, None),
            Remaining::Selected(..) | Remaining::None => (LISTED, Some(PlanDigest::default())),
        };
        let (mut count, mut rows) = (0, Vec::new());
        while let Some(batch) = self.next().await? {
            count += batch.len() as u64;
            for row in batch {
                if let Some(digest) = &mut digest {
                    digest.add(item(&row));
                }
                if rows.len() < most {
                    rows.push(row);
                }
            }
        }
        Ok(Plan::new(action, count, rows).with_digest(digest))
    }
}
