//! `cdb instances restart`: starts the orchestrations of instances again, as new instances.

use std::fmt;

use cdb_provider::Restart;
use cdb_provider::documents::Status;
use clap::Args;
use serde::Serialize;

use super::chosen::Chosen;
use super::operator::Operator;
use super::select::State;
use crate::confirm::Confirmation;
use crate::exit::{Exit, Failure};
use crate::orchestrations::Orchestrations;
use crate::output::{Console, counted};
use crate::view::instances::Row;

#[derive(Debug, Args)]
pub(super) struct RestartArgs {
    /// Id of the new instance, for a single instance; by default the old id and `-restart`
    #[arg(long = "as", value_name = "ID")]
    new_id: Option<String>,
    /// Input of the new instances; by default the input of the old instance
    #[arg(long, value_name = "TEXT")]
    input: Option<String>,
    /// Version of the orchestration; by default that of the old instance
    #[arg(long, value_name = "VERSION")]
    version: Option<String>,
    #[command(flatten)]
    operator: Operator,
    #[command(flatten)]
    confirmation: Confirmation,
    #[command(flatten)]
    chosen: Chosen,
}

/// The result of the command, in numbers.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Restarted {
    instances: u64,
    /// Instances that an earlier run had restarted.
    known: u64,
    /// The instances that could not be restarted, with the reason.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    refused: Vec<String>,
}

impl RestartArgs {
    pub(super) async fn run(
        &self,
        orchestrations: &Orchestrations,
        console: &mut Console<'_>,
    ) -> Result<Exit, Failure> {
        if self.chosen.asks_for(State::Running) {
            return Err(Failure::usage(
                "running instances are not restarted; cancel them first",
            ));
        }
        let chosen = || {
            let batches = self.chosen.batches(orchestrations)?.roots();
            Ok::<_, Failure>(batches.only(&[Status::Completed, Status::Failed]))
        };
        if self.new_id.is_some() && !self.chosen.is_single() {
            return Err(Failure::usage(
                "--as names one new instance; name one instance to restart",
            ));
        }
        if self.confirmation.is_missing() {
            let plan = chosen()?.plan("restart").await?;
            refuse_running(plan.rows())?;
            return self.confirmation.stop(&plan, console);
        }
        let (mut batches, mut done) = (chosen()?, Restarted::default());
        while let Some(rows) = batches.next().await? {
            refuse_running(&rows)?;
            for row in rows {
                match self.restart(orchestrations, &row, &mut done).await {
                    Err(refused) if !self.chosen.is_single() => {
                        // One instance must not stop the others; the next run finds it again.
                        done.refused.push(refused.message);
                    }
                    restarted => restarted?,
                }
            }
            console.progress(done.to_string())?;
        }
        console.answer(&done)?;
        if done.refused.is_empty() {
            return Ok(Exit::Ok);
        }
        Ok(Exit::Finding)
    }

    async fn restart(
        &self,
        orchestrations: &Orchestrations,
        row: &Row,
        done: &mut Restarted,
    ) -> Result<(), Failure> {
        let new_id = match &self.new_id {
            Some(id) => id.clone(),
            None => format!("{}-restart", row.id),
        };
        if orchestrations.is_known(&new_id).await? {
            if self.chosen.is_single() {
                return Err(Failure::usage(format!(
                    "instance `{new_id}` exists; choose another id with --as"
                )));
            }
            done.known += 1;
            return Ok(());
        }
        let restart = Restart {
            new_instance: new_id,
            version: self.version.clone(),
            input: self.input.clone(),
        };
        let provider = &orchestrations.provider;
        provider
            .restart(&row.id, restart, &self.operator.by)
            .await?;
        done.instances += 1;
        Ok(())
    }
}

fn refuse_running(rows: &[Row]) -> Result<(), Failure> {
    match rows.iter().find(|row| row.status == Status::Running) {
        Some(running) => Err(Failure::usage(format!(
            "instance `{}` is running; cancel it first",
            running.id
        ))),
        None => Ok(()),
    }
}

impl fmt::Display for Restarted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "restarted {}", counted(self.instances, "instance"))?;
        if self.known > 0 {
            write!(f, "; restarted before: {}", self.known)?;
        }
        f.write_str("; a runtime that has the orchestration registered starts them")?;
        for refused in &self.refused {
            write!(f, "\nnot restarted: {refused}")?;
        }
        Ok(())
    }
}
