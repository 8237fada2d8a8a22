//! Checks of the account, the container and its runtimes. Each finding has a remedy.

pub mod account;
mod container;
mod failures;
mod finding;
mod service;
mod work;

use std::fmt;

use cdb_provider::documents::Durable;
use serde::Serialize;

use crate::connection::Connection;
use crate::container::{Holdings, known_model};
use crate::exit::{Exit, Failure, remedy};
use crate::model::Model;
use finding::{Finding, Level};

/// The findings, in the order of the checks.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Diagnosis {
    pub findings: Vec<Finding>,
}

/// Runs the checks. A failed check skips the checks that depend on it.
pub(crate) async fn examine(connection: &Connection, model: &Model) -> Result<Diagnosis, Failure> {
    let mut findings = vec![service::endpoint(connection)];
    let database = match connection.database() {
        Err(failure) if failure.exit == Exit::Service => {
            let remedy = failure.remedy.unwrap_or_default();
            findings.push(Finding::problem("endpoint", failure.message, remedy));
            return Ok(Diagnosis { findings });
        }
        opened => opened?,
    };
    let client = connection.client()?;
    let live = match model
        .live_definition(&database, &connection.container)
        .await
    {
        Ok(live) => live,
        Err(error) => {
            findings.push(service::unreadable(&error, connection.has_emulator_key()));
            return Ok(Diagnosis { findings });
        }
    };
    findings.push(Finding::ok("credentials", "accepted"));
    findings.push(service::clock(client.clock_offset_millis()));
    let known = known_model(model, &live);
    let model = known.as_ref().unwrap_or(model);
    let name = &connection.container;
    findings.extend(container::definition(&database, name, model, &live).await?);
    findings.push(container::indexing(&database, &connection.container).await?);
    if model.definition.partition_key.paths != live.partition_key.paths {
        // The service refuses every request about documents of this model.
        return Ok(Diagnosis { findings });
    }
    let documents = database.container::<Durable>(&connection.container);
    if live.partition_key.paths.len() == 1 {
        findings.extend(service::rights(&documents).await?);
    }
    let holdings = match Holdings::of(connection, model, &live).await {
        Err(refused) if refused.exit == Exit::Usage => {
            let remedy = "use a newer version of {cdb}";
            findings.push(Finding::problem("schema", refused.message, remedy));
            return Ok(Diagnosis { findings });
        }
        opened => opened?,
    };
    if let Some(orchestrations) = &holdings.orchestrations {
        findings.extend(work::examine(orchestrations).await?);
    }
    findings.extend(failures::examine(&holdings).await?);
    findings.push(service::throttling(&documents.usage()));
    Ok(Diagnosis { findings })
}

impl Diagnosis {
    /// Fills in the name of the program in the remedies.
    pub(crate) fn for_program(mut self, program: &str) -> Self {
        for finding in &mut self.findings {
            if let Some(remedy) = &mut finding.remedy {
                *remedy = remedy::for_program(remedy, program);
            }
        }
        self
    }

    pub(crate) fn exit(&self) -> Exit {
        let healthy = self
            .findings
            .iter()
            .all(|finding| finding.level == Level::Ok);
        if healthy { Exit::Ok } else { Exit::Finding }
    }
}

impl fmt::Display for Diagnosis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for finding in &self.findings {
            let mark = match finding.level {
                Level::Ok => "ok     ",
                Level::Warning => "warning",
                Level::Problem => "PROBLEM",
            };
            writeln!(f, "{mark}  {:<11}  {}", finding.check, finding.says)?;
            if let Some(remedy) = &finding.remedy {
                writeln!(f, "{:22}→ {remedy}", "")?;
            }
        }
        Ok(())
    }
}
