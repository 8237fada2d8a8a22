//! The steps of every command that changes instances: select them, show the plan or change them in
//! batches, and report the result.

use clap::Args;

use super::chosen::{Batches, Chosen, item};
use super::report::Report;
use crate::command::confirm::{Confirmation, Plan};
use crate::container::Orchestrations;
use crate::exit::{Exit, Failure};
use crate::output::Console;
use crate::view::instances::Row;

#[derive(Debug, Args)]
pub(super) struct ChangeArgs<C: Args> {
    #[command(flatten)]
    change: C,
    #[command(flatten)]
    confirmation: Confirmation,
    #[command(flatten)]
    chosen: Chosen,
}

/// A change of instances, with its options.
pub(super) trait Change: Args {
    /// The verb of the plan: `would delete 2 instances`.
    const VERB: &'static str;
    /// The verb of the report: `deleted 2 instances`.
    const DONE: &'static str;
    /// The number of instances that are changed between two progress reports.
    const AT_A_TIME: usize = usize::MAX;
    /// Whether a refused instance does not stop the others: an interrupted run has changed it.
    const SKIPS_REFUSED: bool = false;
    type Report: Report;

    /// Returns the chosen instances that the change fits.
    ///
    /// # Errors
    /// When the options do not fit the choice.
    fn select<'a>(&self, of: &Context<'a, Self::Report>) -> Result<Batches<'a>, Failure>;

    /// Refuses an instance that the change does not fit.
    fn refuse(&self, _row: &Row) -> Result<(), Failure> {
        Ok(())
    }

    /// Describes the effects on an instance of a plan, in a remark. Returns the exit code.
    async fn describe(
        &self,
        _row: &Row,
        _of: &Context<'_, Self::Report>,
        _console: &mut Console<'_>,
    ) -> Result<Exit, Failure> {
        Ok(Exit::Ok)
    }

    /// Changes instances, and adds the results to the report.
    async fn apply(
        &self,
        rows: Vec<Row>,
        to: &mut Context<'_, Self::Report>,
    ) -> Result<(), Failure>;
}

/// The instances that a command changes, where they are, and the result so far.
pub(super) struct Context<'a, R> {
    pub(super) orchestrations: &'a Orchestrations,
    pub(super) chosen: &'a Chosen,
    /// The name of the operator.
    pub(super) by: &'a str,
    pub(super) report: R,
}

impl<C: Change> ChangeArgs<C> {
    pub(super) async fn run(
        &self,
        orchestrations: &Orchestrations,
        console: &mut Console<'_>,
    ) -> Result<Exit, Failure> {
        let change = &self.change;
        let mut context = Context {
            orchestrations,
            chosen: &self.chosen,
            by: &self.confirmation.operator.by,
            report: C::Report::of(C::DONE, &self.confirmation.operator.by),
        };
        let mut batches = change.select(&context)?;
        if self.confirmation.is_missing() {
            return self.plan(batches, &context, console).await;
        }
        // What begins to match from here on is not changed.
        let planned = match self.confirmation.planned() {
            Some(digest) => Some(change.select(&context)?.planned(digest).await?),
            None => None,
        };
        while let Some(mut rows) = batches.next().await? {
            if let Some(planned) = &planned {
                rows.retain(|row| planned.contains(&item(row)));
            }
            let (fitting, skipped) = self.fitting(rows)?;
            for reason in batches.take_missing().into_iter().chain(skipped) {
                context.report.refuse(reason);
            }
            let mut rows = fitting.into_iter().peekable();
            loop {
                let some = rows.by_ref().take(C::AT_A_TIME).collect();
                change.apply(some, &mut context).await?;
                console.progress(context.report.progress())?;
                if rows.peek().is_none() {
                    break;
                }
            }
        }
        console.answer(&context.report)?;
        Ok(context.report.exit())
    }

    /// Returns the instances that the change fits, and why the others are skipped.
    ///
    /// # Errors
    /// When an instance is refused that an earlier run cannot have changed.
    fn fitting(&self, rows: Vec<Row>) -> Result<(Vec<Row>, Vec<String>), Failure> {
        let (mut fitting, mut skipped) = (Vec::with_capacity(rows.len()), Vec::new());
        for row in rows {
            match self.change.refuse(&row) {
                Ok(()) => fitting.push(row),
                Err(refused) if C::SKIPS_REFUSED && !self.chosen.is_single() => {
                    skipped.push(refused.message);
                }
                Err(refused) => return Err(refused),
            }
        }
        Ok((fitting, skipped))
    }

    async fn plan(
        &self,
        mut batches: Batches<'_>,
        context: &Context<'_, C::Report>,
        console: &mut Console<'_>,
    ) -> Result<Exit, Failure> {
        let mut plan: Plan = batches.plan(C::VERB).await?;
        let (fitting, skipped) = self.fitting(plan.take_rows())?;
        plan.list(fitting, skipped.len());
        let mut exit = Exit::Ok;
        for reason in batches.take_missing().into_iter().chain(skipped) {
            console.remark(&format!("not in the plan: {reason}"))?;
            exit = Exit::Finding;
        }
        if plan.rows().is_empty() {
            let chosen = context.chosen;
            chosen
                .explain_empty(context.orchestrations, console)
                .await?;
        }
        for row in plan.rows() {
            if self.change.describe(row, context, console).await? != Exit::Ok {
                exit = Exit::Finding;
            }
        }
        self.confirmation.stop(&plan, console)?;
        Ok(exit)
    }
}

impl<'a, R> Context<'a, R> {
    pub(super) fn batches(&self) -> Result<Batches<'a>, Failure> {
        self.chosen.batches(self.orchestrations)
    }
}
