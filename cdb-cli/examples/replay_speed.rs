//! Time to replay many running instances: `cargo run --release -p cdb-cli --example replay_speed -- 100000`.
//!
//! Every instance has run five activities and waits for an event: a history of 12 events. The
//! emulator runs in this process, on the same processors.

use cdb_model::Document as _;
use std::time::Instant;

use cdb_cli::{Cli, Exit};
use cdb_client::{Bootstrap, ContainerClient, CosmosClient, MasterKey};
use cdb_emulator::Emulator;
use cdb_provider::documents::{Durable, HistorySegment, Instance, Status};
use cdb_provider::replay::{Recording, Replay};
use duroxide::{Event, EventKind, OrchestrationContext, OrchestrationRegistry};
use futures::{StreamExt as _, TryStreamExt as _, stream};

type Failure = Box<dyn std::error::Error + Send + Sync>;

const STEPS: u64 = 5;

async fn order(ctx: OrchestrationContext, input: String) -> Result<String, String> {
    let mut input = input;
    for step in 0..STEPS {
        input = ctx.schedule_activity(format!("Step{step}"), input).await?;
    }
    Ok(ctx.schedule_wait("Approved").await)
}

fn orchestrations() -> OrchestrationRegistry {
    OrchestrationRegistry::builder()
        .register("Order", order)
        .build()
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let count: u64 = match std::env::args().nth(1) {
        Some(count) => count.parse()?,
        None => 100_000,
    };
    let replay = Replay::new(orchestrations());
    let begun = Instant::now();
    for number in 0..count {
        replay.check(&Recording::new(
            "order",
            1,
            history(&format!("order-{number}")),
        ))?;
    }
    println!(
        "{count} recordings in memory: {:.1?} on one processor",
        begun.elapsed()
    );

    let emulator = Emulator::start().await?;
    let client = CosmosClient::builder(emulator.endpoint())
        .credential(MasterKey::new(emulator.key())?)
        .build()?;
    let database = client.database("duroxide");
    let container: ContainerClient<Durable> = database
        .bootstrap("duroxide", Bootstrap::CreateIfMissing)
        .await?;
    stream::iter(0..count)
        .map(|number| store(&container, format!("order-{number}")))
        .buffer_unordered(64)
        .try_collect::<()>()
        .await?;

    let begun = Instant::now();
    let arguments = [
        "cdb",
        "instances",
        "replay",
        "--endpoint",
        &emulator.endpoint(),
        "--key",
        emulator.key(),
    ];
    let command = Cli::<Durable>::new("duroxide").orchestrations(orchestrations());
    let exit = command
        .run_with(arguments, &mut std::io::stdout(), &mut std::io::sink())
        .await;
    println!("with `instances replay`: {:.1?}", begun.elapsed());
    match exit {
        Exit::Ok => Ok(()),
        exit => Err(format!("{exit:?}").into()),
    }
}

/// Writes an instance as the provider stores it.
async fn store(container: &ContainerClient<Durable>, id: String) -> Result<(), Failure> {
    let now = container.now();
    let segment = HistorySegment::pack(&id, 1, &history(&id))?.ok_or("no events")?;
    let instance = Instance {
        orchestration_name: "Order".to_owned(),
        orchestration_version: Some("1.0.0".to_owned()),
        status: Status::Running,
        updated_at: now,
        started_at: Some(now),
        ..Instance::pending(&id, now)
    };
    container.run(segment.create()).await?;
    container.run(instance.create()).await?;
    Ok(())
}

fn history(id: &str) -> Vec<Event> {
    let mut events = Vec::new();
    let mut add = |source, kind| {
        let number = events.len() as u64 + 1;
        events.push(Event::with_event_id(number, id, 1, source, kind));
        number
    };
    add(
        None,
        EventKind::OrchestrationStarted {
            name: "Order".to_owned(),
            version: "1.0.0".to_owned(),
            input: "990".to_owned(),
            parent_instance: None,
            parent_id: None,
            parent_execution_id: None,
            carry_forward_events: None,
            initial_custom_status: None,
        },
    );
    for step in 0..STEPS {
        let scheduled = EventKind::ActivityScheduled {
            name: format!("Step{step}"),
            input: "990".to_owned(),
            session_id: None,
            tag: None,
        };
        let scheduled = add(None, scheduled);
        let completed = EventKind::ActivityCompleted {
            result: "990".to_owned(),
        };
        add(Some(scheduled), completed);
    }
    let approved = EventKind::ExternalSubscribed {
        name: "Approved".to_owned(),
    };
    add(None, approved);
    events
}
