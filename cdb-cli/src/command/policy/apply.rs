//! `cdb policy apply`: replaces the live policy.

use std::time::Duration;

use cdb_client::database::ContainerChange;
use cdb_client::{DatabaseClient, ErrorKind};
use cdb_model::policy::IndexingPolicy;
use clap::Args;

use super::comparison::Comparison;
use super::removal::Removal;
use crate::command::confirm::Operator;
use crate::connection::Connection;
use crate::exit::{Exit, Failure};
use crate::model::Model;
use crate::output::Console;

/// The interval between two reads of the indexing progress.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(5);

#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an option of its own"
)]
#[derive(Debug, Args)]
pub(super) struct ApplyOptions {
    /// Show the plan and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Also remove indexes that the model does not need; without it, a change that removes any
    /// is only shown
    #[arg(long, conflicts_with_all = ["dry_run", "add_only"])]
    yes: bool,
    /// Create the container and its database if they are missing
    #[arg(long)]
    create: bool,
    /// Change the default time to live too; the service deletes documents older than that
    #[arg(long)]
    time_to_live: bool,
    /// Add indexes and remove none: the first of two steps while an older program still runs
    #[arg(long)]
    add_only: bool,
    /// Do not wait until the indexes are built
    #[arg(long)]
    no_wait: bool,
    #[command(flatten)]
    operator: Operator,
}

/// A run of `cdb policy apply`.
pub(super) struct Apply<'a> {
    pub connection: &'a Connection,
    pub model: &'a Model,
    pub options: &'a ApplyOptions,
}

impl Apply<'_> {
    pub(super) async fn run(&self, console: &mut Console<'_>) -> Result<Exit, Failure> {
        let (name, model, options) = (&self.connection.container, self.model, self.options);
        let database = self.connection.database()?;
        let created = options.create && self.is_missing(&database).await?;
        if created && options.dry_run {
            let planned = Comparison::with_missing(&database, name, model);
            console.answer(&planned)?;
            return Ok(Exit::Finding);
        }
        if created {
            model.create(database.clone(), name).await?;
        }
        let mut comparison = Comparison::for_change(&database, name, model).await?;
        comparison.created = created && comparison.differences.is_empty();
        comparison.by = created.then(|| options.operator.by.clone());
        if comparison.differences.is_empty() {
            console.answer(&comparison)?;
            return Ok(Exit::Ok);
        }
        let target = &model.definition.indexing_policy;
        if !options.add_only {
            let live = &comparison.live;
            comparison.removal = Removal::of(&database, name, model, live, target).await?;
        }
        if options.dry_run {
            console.answer(&comparison)?;
            return Ok(comparison.exit(false));
        }
        self.check_is_allowed(&comparison, console)?;
        if !console.json {
            console.remark(comparison.to_string().trim_end())?;
        }
        let change = self.change(target.clone(), comparison.live);
        if let Err(error) = database.change_container(name, &change).await {
            if error.kind() == ErrorKind::ContainerDiffers {
                return Err(Failure::finding(error.to_string()));
            }
            return Err(error.into());
        }
        if !options.no_wait {
            wait_for_index(&database, name, console).await?;
        }
        let mut remaining = Comparison::for_change(&database, name, model).await?;
        remaining.by = Some(options.operator.by.clone());
        console.answer(&remaining)?;
        Ok(remaining.exit(options.add_only))
    }

    /// Checks that the container can be changed, and that the removal of indexes is confirmed.
    /// Shows the plan if it is not.
    fn check_is_allowed(
        &self,
        comparison: &Comparison,
        console: &mut Console<'_>,
    ) -> Result<(), Failure> {
        let mut differences = comparison.differences.iter();
        if let Some(item) = differences.find(|item| item.breaking && !item.changeable) {
            return Err(Failure::finding(item.text.clone()));
        }
        if comparison.removal.is_none() || self.options.yes {
            return Ok(());
        }
        console.answer(comparison)?;
        Err(Failure::usage(
            "nothing was changed; pass --add-only to remove no index, or --yes to remove those above. If other programs store documents here, use a command that declares the document types of all",
        ))
    }

    async fn is_missing(&self, database: &DatabaseClient) -> Result<bool, Failure> {
        match self
            .model
            .live_definition(database, &self.connection.container)
            .await
        {
            Err(error) if error.is_not_found() => Ok(true),
            live => Ok(live.map(|_| false)?),
        }
    }

    /// Returns the change to the model's policy from the policy that was shown.
    fn change(&self, policy: IndexingPolicy, shown: IndexingPolicy) -> ContainerChange {
        let change = ContainerChange::default().with_search_of(&self.model.definition);
        let change = if self.options.add_only {
            change.with_added_indexes(policy)
        } else {
            change.with_indexing_policy(policy).if_policy_is(shown)
        };
        if self.options.time_to_live {
            change.with_default_ttl(self.model.definition.default_ttl)
        } else {
            change
        }
    }
}

/// Reports the indexing progress until the index is complete.
async fn wait_for_index(
    database: &DatabaseClient,
    name: &str,
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    loop {
        let Some(percent) = database.indexing_progress(name).await? else {
            console.remark("the service does not report the indexing progress")?;
            return Ok(());
        };
        console.progress(format!("indexing: {percent} %"))?;
        if percent >= 100 {
            return Ok(());
        }
        tokio::time::sleep(PROGRESS_INTERVAL).await;
    }
}
