//! The questions, and how an endpoint answers them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use cdb_client::{Bootstrap, ContainerClient, CosmosClient, OperationUsage};
use cdb_provider::documents::{Durable, FIRST_DUE, NEVER, OrchestratorItem, OrchestratorItemKey};
use cdb_provider::model::{Batch, Document as _, Patch, Query, Timestamp};
use cdb_provider::{CosmosDBProvider, CosmosDBProviderConfig};
use duroxide::providers::WorkItem;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::runtime::{Runtime, RuntimeOptions};
use duroxide::{ActivityContext, Client, OrchestrationContext, OrchestrationRegistry};

use crate::{Answers, Failure, prefix};

pub(crate) const DATABASE: &str = "cdb-azure-check";
/// The number of documents in different partitions.
const SPREAD: u32 = 64;
/// The operations of a full batch.
const FULL: usize = 100;
/// The orchestrations whose cost is measured.
const HELLOS: u32 = 20;

/// A question to an endpoint.
pub(crate) struct Question {
    topic: Topic,
    pub(crate) text: &'static str,
    pub(crate) needed_for: &'static str,
    /// Whether correctness depends on the answer. Otherwise costs or latency do.
    pub(crate) is_required: bool,
}

#[derive(Clone, Copy)]
enum Topic {
    WriteRegion,
    Index,
    Hashes,
    Batches,
    ETags,
    Order,
    Prefix,
    LatestCommitted,
    Clock,
    Latencies,
    Hello,
}

const fn required(topic: Topic, text: &'static str, needed_for: &'static str) -> Question {
    Question {
        topic,
        text,
        needed_for,
        is_required: true,
    }
}

const fn measured(topic: Topic, text: &'static str, needed_for: &'static str) -> Question {
    Question {
        is_required: false,
        ..required(topic, text, needed_for)
    }
}

/// All questions, in the order of docs/operations.md.
const QUESTIONS: [Question; 11] = [
    required(
        Topic::WriteRegion,
        "Does one region accept writes?",
        "locks",
    ),
    required(
        Topic::Index,
        "Is the index complete after opening?",
        "ordered polls",
    ),
    required(
        Topic::Hashes,
        "Does the client hash keys as the service does?",
        "bulk, polls by partition",
    ),
    required(
        Topic::Batches,
        "Is a batch of 100 operations atomic, and does it name the failed one?",
        "commits",
    ),
    required(
        Topic::ETags,
        "Does an outdated ETag fail with 412?",
        "locks",
    ),
    required(
        Topic::Order,
        "Does a query of one physical partition sort by a composite index?",
        "polls",
    ),
    required(
        Topic::Prefix,
        "Does a prefix of a hierarchical key read the documents of its tenant?",
        "queries by prefix",
    ),
    measured(
        Topic::LatestCommitted,
        "Does a read with `LatestCommitted` cost about twice a session read?",
        "reads after a lost answer",
    ),
    measured(
        Topic::Clock,
        "How far is the service's clock from this machine's?",
        "lock times",
    ),
    measured(
        Topic::Latencies,
        "How long do reads, patches and batches take?",
        "sizing",
    ),
    measured(Topic::Hello, "What does a hello world cost?", "sizing"),
];

pub(crate) type Answer = Result<Result<String, String>, Failure>;

/// Asks all questions. A failed request answers its question with no.
pub(crate) async fn run(client: &CosmosClient) -> Result<Answers, Failure> {
    let name = format!("azure-check-{}", uuid::Uuid::new_v4());
    let database = client.database(DATABASE);
    let container = database.bootstrap(&name, Bootstrap::CreateIfMissing);
    let container: ContainerClient<Durable> = container.await?;
    let check = Check {
        client,
        container: &container,
    };
    let mut answers = Answers::new();
    for question in QUESTIONS {
        let answer = check.answer(question.topic).await;
        let answer = answer.unwrap_or_else(|error| Err(error.to_string()));
        answers.push((question, answer));
    }
    container.delete_container().await?;
    Ok(answers)
}

/// The time for which no runtime sees the messages of the check.
const DELAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A message that starts an instance much later.
fn message(instance: &str, cause: &str, now: Timestamp) -> Result<OrchestratorItem, Failure> {
    let start = WorkItem::StartOrchestration {
        instance: instance.to_owned(),
        orchestration: "Nothing".to_owned(),
        input: String::new(),
        version: None,
        parent_instance: None,
        parent_id: None,
        parent_execution_id: None,
        execution_id: 1,
    };
    Ok(OrchestratorItem::new(
        &start,
        cause.to_owned(),
        now + DELAY,
        now,
    )?)
}

struct Check<'a> {
    client: &'a CosmosClient,
    container: &'a ContainerClient<Durable>,
}

impl Check<'_> {
    async fn answer(&self, topic: Topic) -> Answer {
        match topic {
            Topic::WriteRegion => self.has_one_write_region().await,
            Topic::Index => self.index_is_complete().await,
            Topic::Hashes => self.hashes_agree().await,
            Topic::Batches => self.batches_are_atomic().await,
            Topic::ETags => self.etags_protect().await,
            Topic::Order => self.ranges_are_sorted().await,
            Topic::Prefix => prefix::reads_its_tenant(self.client).await,
            Topic::LatestCommitted => self.latest_committed_is_honoured().await,
            Topic::Clock => Ok(self.clock()),
            Topic::Latencies => self.latencies().await,
            Topic::Hello => self.hello().await,
        }
    }

    async fn has_one_write_region(&self) -> Answer {
        let account = self.client.account().await?;
        let regions: Vec<&str> = account
            .write_regions
            .iter()
            .map(|region| &*region.name)
            .collect();
        let regions = regions.join(", ");
        Ok(if account.has_several_write_regions {
            Err(format!("writes are accepted in {regions}"))
        } else {
            Ok(regions)
        })
    }

    async fn index_is_complete(&self) -> Answer {
        let database = self.client.database(DATABASE);
        let progress = database.indexing_progress(self.container.name()).await?;
        Ok(match progress {
            Some(100) => Ok("100 %".to_owned()),
            Some(progress) => Err(format!("{progress} %")),
            None => Err("the service does not report the progress".to_owned()),
        })
    }

    /// Finds each of many documents by a query of the physical partition that the client computes.
    async fn hashes_agree(&self) -> Answer {
        for number in 0..SPREAD {
            let now = self.container.now();
            let instance = format!("spread-{number}");
            self.container
                .create(&message(&instance, "start", now)?)
                .await?;
        }
        let ranges = self.container.ranges().await?;
        let (mut found, mut wrong) = (0, 0);
        for range in &ranges {
            let query = Query::<OrchestratorItem>::across_partitions();
            for stored in self.container.query(query).in_range(range).all().await? {
                let key = (&*stored.document.instance_id).into();
                found += 1;
                wrong += u32::from(self.container.range_of(&key).await?.as_ref() != Some(range));
            }
        }
        let text = format!(
            "{found} of {SPREAD} documents in {} partitions, {wrong} elsewhere",
            ranges.len()
        );
        Ok(if found == SPREAD && wrong == 0 {
            Ok(text)
        } else {
            Err(text)
        })
    }

    async fn batches_are_atomic(&self) -> Answer {
        let now = self.container.now();
        let mut batch = Batch::<Durable>::new("batch");
        for number in 0..FULL {
            batch.create(&message("batch", &format!("cause-{number}"), now)?)?;
        }
        self.container.execute(&batch).await?;
        // The last operation of the second batch conflicts, so the first ones must not remain.
        let mut second = Batch::<Durable>::new("batch");
        second.create(&message("batch", "new", now)?)?;
        let conflicting = second.create(&message("batch", "cause-0", now)?)?;
        let Err(error) = self.container.execute(&second).await else {
            return Ok(Err("a conflicting batch was committed".to_owned()));
        };
        let named = error.operation_index() == Some(conflicting.get());
        let key = OrchestratorItemKey::new("batch", "new");
        let remains = self.container.read(&key).await?.is_some();
        Ok(match (error.is_conflict() && named, remains) {
            (true, false) => Ok(format!("{FULL} operations; the conflict names operation 1")),
            (_, true) => Err("an operation of a failed batch remains".to_owned()),
            (false, false) => Err(format!("the error is: {error}")),
        })
    }

    async fn etags_protect(&self) -> Answer {
        let now = self.container.now();
        let item = message("etag", "start", now)?;
        let written = self.container.create(&item).await?;
        let key = item.key();
        let patch = Patch::<OrchestratorItem>::new().set(OrchestratorItem::ENQUEUED_AT, now);
        self.container
            .patch_if_match(&key, &patch, &written.etag)
            .await?;
        Ok(
            match self
                .container
                .patch_if_match(&key, &patch, &written.etag)
                .await
            {
                Err(error) if error.is_precondition_failed() => Ok("412".to_owned()),
                Err(error) => Err(error.to_string()),
                Ok(_) => Err("an outdated ETag was accepted".to_owned()),
            },
        )
    }

    async fn ranges_are_sorted(&self) -> Answer {
        let before = self.container.usage().total();
        let ranges = self.container.ranges().await?;
        for range in &ranges {
            let due = OrchestratorItem::VISIBLE_AT.between(FIRST_DUE, NEVER);
            let query = Query::<OrchestratorItem>::across_partitions().filter(due);
            let query = query.order_by(OrchestratorItem::BY_DUE).limit(8);
            let rows = self.container.query(query).in_range(range).all().await?;
            let times: Vec<_> = rows.iter().map(|row| row.document.visible_at).collect();
            if !times.is_sorted() {
                return Ok(Err("the rows are not in order".to_owned()));
            }
        }
        let (requests, charge) = self.spent(before);
        Ok(Ok(format!(
            "{requests} requests, {charge:.1} RU for {} partitions",
            ranges.len()
        )))
    }

    async fn latest_committed_is_honoured(&self) -> Answer {
        let item = message("consistency", "start", self.container.now())?;
        self.container.create(&item).await?;
        let key = item.key();
        let before = self.container.usage().total();
        self.container.read(&key).await?;
        let (_, session) = self.spent(before);
        let before = self.container.usage().total();
        self.container.latest_committed().read(&key).await?;
        let (_, latest) = self.spent(before);
        let text = format!("{session:.2} RU and {latest:.2} RU");
        Ok(if latest > 1.5 * session {
            Ok(text)
        } else {
            Err(text)
        })
    }

    fn clock(&self) -> Result<String, String> {
        let offset = self.client.clock_offset_millis();
        let uncertainty = self.client.clock_uncertainty();
        match (offset, uncertainty) {
            (Some(offset), Some(uncertainty)) => Ok(format!("{offset} ms, within {uncertainty:?}")),
            _ => Err("no answer had a date".to_owned()),
        }
    }

    async fn latencies(&self) -> Answer {
        let now = self.container.now();
        let item = message("latency", "start", now)?;
        self.container.create(&item).await?;
        let key = item.key();
        let patch = Patch::<OrchestratorItem>::new().set(OrchestratorItem::ENQUEUED_AT, now);
        let (mut reads, mut patches, mut batches) = (Vec::new(), Vec::new(), Vec::new());
        for number in 0..20 {
            let begun = Instant::now();
            self.container.read(&key).await?;
            reads.push(begun.elapsed());
            let begun = Instant::now();
            self.container.patch(&key, &patch).await?;
            patches.push(begun.elapsed());
            let mut batch = Batch::<Durable>::new("latency");
            for cause in ["a", "b", "c"] {
                batch.create(&message("latency", &format!("{cause}-{number}"), now)?)?;
            }
            let begun = Instant::now();
            self.container.execute(&batch).await?;
            batches.push(begun.elapsed());
        }
        let median = |mut times: Vec<Duration>| {
            times.sort_unstable();
            times[times.len() / 2].as_secs_f64() * 1000.0
        };
        let (read, patch, batch) = (median(reads), median(patches), median(batches));
        Ok(Ok(format!(
            "medians {read:.1}, {patch:.1} and {batch:.1} ms"
        )))
    }

    /// Runs orchestrations with one activity each.
    async fn hello(&self) -> Answer {
        let config = CosmosDBProviderConfig::default();
        let store = Arc::new(CosmosDBProvider::on(self.container.clone(), &config).await?);
        let activities = ActivityRegistry::builder()
            .register("Greet", |_: ActivityContext, name: String| async move {
                Ok(format!("Hello, {name}!"))
            })
            .build();
        let orchestrations = OrchestrationRegistry::builder()
            .register(
                "Hello",
                |ctx: OrchestrationContext, name: String| async move {
                    ctx.schedule_activity("Greet", name).await
                },
            )
            .build();
        let mut options = RuntimeOptions::default();
        "error".clone_into(&mut options.observability.log_level);
        let runtime =
            Runtime::start_with_options(store.clone(), activities, orchestrations, options).await;
        let client = Client::new(store.clone());
        let before = store.container().usage().total();
        for number in 0..HELLOS {
            let instance = format!("hello-{number}");
            client
                .start_orchestration(&instance, "Hello", "Ada")
                .await?;
            let timeout = Duration::from_secs(60);
            client.wait_for_orchestration(&instance, timeout).await?;
        }
        let (requests, charge) = self.spent(before);
        runtime.shutdown(None).await;
        let count = f64::from(HELLOS);
        let requests = f64::from(u32::try_from(requests)?) / count;
        Ok(Ok(format!(
            "{requests:.1} requests and {:.0} RU each, waiting included",
            charge / count
        )))
    }

    /// Returns the requests and request units since `before`.
    fn spent(&self, before: OperationUsage) -> (u64, f64) {
        let now = self.container.usage().total();
        (now.requests - before.requests, now.charge - before.charge)
    }
}
