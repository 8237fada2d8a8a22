//! `cdb instances restart`: starts the orchestrations of instances again, as new instances.

use cdb_provider::Restart;
use clap::Args;

use super::change::{Change, Context};
use super::chosen::{Batches, ENDED};
use super::report::Outcomes;
use super::select::State;
use crate::container::restart;
use crate::exit::Failure;
use crate::view::instances::Row;

#[derive(Debug, Args)]
pub(super) struct RestartInstances {
    /// Id of the new instance, for a single instance; by default the old id and `-restart`
    #[arg(long = "as", value_name = "ID")]
    new_id: Option<String>,
    /// Input of the new instances; by default the input of the old instance
    #[arg(long, value_name = "TEXT")]
    input: Option<String>,
    /// Version of the orchestration; by default that of the old instance
    #[arg(long, value_name = "VERSION")]
    version: Option<String>,
}

impl Change for RestartInstances {
    const VERB: &'static str = "restart";
    const DONE: &'static str = "restarted";
    type Report = Outcomes;

    fn select<'a>(&self, of: &Context<'a, Outcomes>) -> Result<Batches<'a>, Failure> {
        if of.chosen.asks_for(State::Running) {
            return Err(Failure::usage(
                "running instances are not restarted; cancel them first",
            ));
        }
        if self.new_id.is_some() && !of.chosen.is_single() {
            return Err(Failure::usage(
                "--as names one new instance; name one instance to restart",
            ));
        }
        Ok(of.batches()?.roots().only(&ENDED))
    }

    fn refuse(&self, row: &Row) -> Result<(), Failure> {
        restart::refuse_running(&row.id, &row.status)
    }

    async fn apply(&self, rows: Vec<Row>, to: &mut Context<'_, Outcomes>) -> Result<(), Failure> {
        let known = to.report.known.get_or_insert_default();
        for row in rows {
            let new_id = restart::new_id(&row.id, self.new_id.clone());
            let restart = Restart {
                new_instance: new_id.clone(),
                version: self.version.clone(),
                input: self.input.clone(),
            };
            let by = to.by;
            match restart::restart(to.orchestrations, &row.id, &row.status, restart, by).await {
                Ok(true) => {
                    to.report.instances += 1;
                    to.report.started.push(new_id);
                }
                Ok(false) if to.chosen.is_single() => {
                    return Err(Failure::usage(format!(
                        "instance `{new_id}` exists; choose another id with --as"
                    )));
                }
                Ok(false) => *known += 1,
                Err(failure) if to.chosen.is_single() => return Err(failure),
                // One instance must not stop the others; the next run finds it again.
                Err(failure) => to.report.refused.push(failure.message),
            }
        }
        Ok(())
    }
}
