//! Outbox to NATS JetStream to inbox, with bridges that are killed between publication and report,
//! and between storing and acknowledgement. Needs the program `nats-server`.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use async_nats::jetstream;
use cdb_brokers::{Shop, Tally, coordinator, database, partitions, stream_of};
use cdb_client::{Bootstrap, ContainerClient};
use cdb_emulator::Emulator;
use cdb_model::{Document as _, Query};
use cdb_work::{FlushStrategy as _, NewWork};
use tokio::process::{Child, Command};

const STREAMS: u64 = 4;
const MESSAGES: u64 = 10;

/// How often each bridge ends itself, and after how many publications or acknowledgements.
const KILLS: u32 = 3;
const CALLS: u32 = 7;

/// How long the messages may take.
const PATIENCE: Duration = Duration::from_secs(300);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_message_takes_effect_once_and_in_order_while_bridges_are_killed() {
    let folder = tempfile::tempdir().unwrap();
    let (_server, address) = start_server(folder.path()).await;
    let emulator = Emulator::start().await.unwrap();
    let endpoint = emulator.endpoint();
    let orders = open(&endpoint, "orders").await;
    let warehouse = open(&endpoint, "warehouse").await;
    create_tallies(&warehouse).await;
    store_outbox(&orders).await;

    let keep_alive = |container| supervise([&address, &endpoint, container]);
    tokio::select! {
        () = keep_alive("orders") => unreachable!(),
        () = keep_alive("warehouse") => unreachable!(),
        () = until_complete(&warehouse) => {}
    }

    for tally in tallies(&warehouse).await {
        // The condition of the effect has kept the order.
        assert_eq!((tally.last, tally.count), (MESSAGES, MESSAGES), "{tally:?}");
    }
    let context = jetstream::new(async_nats::connect(&address).await.unwrap());
    let mut published = stream_of(&context, "warehouse").await.unwrap();
    let published = published.info().await.unwrap().state.messages;
    eprintln!(
        "{published} publications of {} messages",
        STREAMS * MESSAGES
    );
    assert!(
        published >= STREAMS * MESSAGES + u64::from(KILLS),
        "each kill after a publication repeats it"
    );
}

async fn start_server(folder: &Path) -> (Child, String) {
    let server = Command::new("nats-server")
        .args(["-js", "-a", "127.0.0.1", "-p", "-1"])
        .arg("-sd")
        .arg(folder)
        .arg("--ports_file_dir")
        .arg(folder)
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .expect("the program `nats-server` (Debian: apt-get install nats-server)");
    let ports = folder.join(format!("nats-server_{}.ports", server.id().unwrap()));
    for _ in 0..200 {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let Ok(text) = std::fs::read_to_string(&ports) else {
            continue;
        };
        if let Ok(ports) = serde_json::from_str::<serde_json::Value>(&text) {
            return (server, ports["nats"][0].as_str().unwrap().to_owned());
        }
    }
    panic!("the server has not started");
}

async fn open(endpoint: &str, name: &str) -> ContainerClient<Shop> {
    let database = database(endpoint).unwrap();
    let opened = database.bootstrap(name, Bootstrap::CreateIfMissing);
    opened.await.unwrap()
}

fn stream_name(stream: u64) -> String {
    format!("order-{stream}")
}

async fn create_tallies(warehouse: &ContainerClient<Shop>) {
    for stream in (0..STREAMS).map(stream_name) {
        let tally = Tally {
            partition: partitions().name(partitions().of_stream(&stream)),
            stream,
            last: 0,
            count: 0,
        };
        warehouse.run(tally.create()).await.unwrap();
    }
}

async fn store_outbox(orders: &ContainerClient<Shop>) {
    let work = coordinator(orders).await.unwrap();
    let scope = work.scoped();
    for number in 1..=MESSAGES {
        for stream in 0..STREAMS {
            let new = NewWork::outbox(stream_name(stream), number.to_string());
            scope.store(new.with_body("ordered", "{}")).await;
        }
    }
    scope.commit().await.unwrap();
    work.shutdown().await.unwrap();
}

/// Runs a bridge process, and starts it again when it has ended itself.
async fn supervise([server, endpoint, container]: [&str; 3]) {
    for run in 0.. {
        let calls = if run < KILLS { CALLS } else { 0 };
        let mut bridge = Command::new(env!("CARGO_BIN_EXE_cdb-bridge"))
            .args([server, endpoint, container, &calls.to_string()])
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let ended = bridge.wait().await.unwrap();
        eprintln!("bridge {run} of `{container}`: {ended}");
    }
}

async fn tallies(warehouse: &ContainerClient<Shop>) -> Vec<Tally> {
    let all = warehouse.query(Query::<Tally>::across_partitions()).all();
    let rows = all.await.unwrap().into_iter();
    rows.map(|row| row.document).collect()
}

async fn until_complete(warehouse: &ContainerClient<Shop>) {
    let complete = async {
        loop {
            tokio::time::sleep(Duration::from_millis(500)).await;
            let applied: u64 = tallies(warehouse)
                .await
                .iter()
                .map(|tally| tally.count)
                .sum();
            if applied >= STREAMS * MESSAGES {
                return;
            }
        }
    };
    let in_time = tokio::time::timeout(PATIENCE, complete).await;
    let tallies = tallies(warehouse).await;
    assert!(
        in_time.is_ok(),
        "not all messages were received: {tallies:?}"
    );
}
