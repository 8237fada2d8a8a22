//! The names of a container that complete an argument.
//!
//! A completion holds up the command line of the user, so it has a time limit, and it returns what
//! it has found by then. Newest instances come first: no index serves a search for a prefix.

use std::collections::BTreeSet;
use std::time::Duration;

use cdb_client::ContainerClient;
use cdb_model::{Projection, Query};
use cdb_provider::documents::{Durable, Instance, Member, Status};
use clap_complete::CompletionCandidate;
use serde::Deserialize;

use crate::connection::Connection;
use crate::dead_letters::DeadLetterSources;
use crate::exit::Failure;
use crate::model::Model;
use crate::wait_for_port;

/// The longest time of a completion.
const LIMIT: Duration = Duration::from_secs(1);

/// The number of candidates.
const MOST: usize = 50;

/// The number of instances of one request.
const PAGE: u32 = 500;

/// The number of instances that a completion reads.
const MOST_EXAMINED: usize = 5_000;

/// The names that complete an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Names {
    Instances,
    Orchestrations,
    Versions,
    DeadLetters,
    MemberGroups,
}

/// The fields of an instance that a completion shows.
#[derive(Projection, Deserialize)]
#[serde(rename_all = "camelCase")]
#[projection(of = Instance)]
struct Found {
    instance_id: String,
    orchestration_name: String,
    orchestration_version: Option<String>,
    status: Status,
}

impl Names {
    /// Returns the names that complete the argument `arg` of the subcommand `command`.
    pub(super) fn of(command: &str, arg: &str) -> Option<Self> {
        match (command, arg) {
            // The id of a new instance.
            ("start", "instance") => None,
            (_, "instance" | "instances" | "parent") => Some(Self::Instances),
            (_, "orchestration") => Some(Self::Orchestrations),
            ("start" | "restart", "version") | (_, "orchestration_version") => Some(Self::Versions),
            ("show" | "redrive" | "discard", "name" | "names") => Some(Self::DeadLetters),
            ("members", "group") => Some(Self::MemberGroups),
            _ => None,
        }
    }

    /// Returns the names in the container that start with `prefix`: those that are found within
    /// the time limit, and none when the service does not answer.
    pub(super) fn starting_with(
        self,
        prefix: &str,
        model: &Model,
        connection: &Connection,
    ) -> Vec<CompletionCandidate> {
        let mut candidates = Candidates {
            prefix,
            known: BTreeSet::new(),
            found: Vec::new(),
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        if let Ok(runtime) = runtime {
            runtime.block_on(async {
                let search = self.search(model, connection, &mut candidates);
                // A failure leaves the candidates that were found before it. A shell shows no error.
                let _ = tokio::time::timeout(LIMIT, search).await;
            });
            // A resolver's thread may still run; the process does not wait for it.
            runtime.shutdown_background();
        }
        candidates.found
    }

    async fn search(
        self,
        model: &Model,
        connection: &Connection,
        candidates: &mut Candidates<'_>,
    ) -> Result<(), Failure> {
        if connection.is_loopback() && !wait_for_port::is_open(&connection.shown_endpoint()) {
            return Ok(());
        }
        if self == Self::DeadLetters {
            let sources = DeadLetterSources::open(connection, model).await?;
            for letter in sources.page(MOST, None).await?.letters {
                candidates.add(&letter.name().to_string(), String::new());
            }
            return Ok(());
        }
        model.holds_orchestrations()?;
        let database = connection.client()?.database(&connection.database);
        let container = database.container::<Durable>(&connection.container);
        if self == Self::MemberGroups {
            let groups = Query::<Member>::across_partitions().distinct(Member::INSTANCE_ID);
            for group in container.query(groups).all().await? {
                candidates.add(&group, String::new());
            }
            return Ok(());
        }
        self.search_instances(&container, candidates).await
    }

    async fn search_instances(
        self,
        container: &ContainerClient<Durable>,
        candidates: &mut Candidates<'_>,
    ) -> Result<(), Failure> {
        let newest_first = Query::<Instance>::across_partitions()
            .filter(Instance::STATUS.ne(Status::Pending))
            .order_by(Instance::BY_CREATED.reversed())
            .select::<Found>();
        let mut pages = container.query(newest_first).page_size(PAGE).pages();
        let mut examined = 0;
        while examined < MOST_EXAMINED
            && candidates.found.len() < MOST
            && let Some(page) = pages.next_page().await?
        {
            examined += page.len();
            for Found {
                instance_id,
                orchestration_name,
                orchestration_version,
                status,
            } in page
            {
                match self {
                    Self::Orchestrations => candidates.add(&orchestration_name, String::new()),
                    Self::Versions => {
                        candidates.add(
                            &orchestration_version.unwrap_or_default(),
                            orchestration_name,
                        );
                    }
                    _ => candidates.add(&instance_id, format!("{orchestration_name}, {status}")),
                }
            }
        }
        Ok(())
    }
}

/// The candidates that a completion has found.
struct Candidates<'a> {
    prefix: &'a str,
    known: BTreeSet<String>,
    found: Vec<CompletionCandidate>,
}

impl Candidates<'_> {
    fn add(&mut self, name: &str, help: String) {
        let fits = !name.is_empty() && name.starts_with(self.prefix);
        if fits && self.found.len() < MOST && self.known.insert(name.to_owned()) {
            let help = (!help.is_empty()).then(|| help.into());
            self.found.push(CompletionCandidate::new(name).help(help));
        }
    }
}
