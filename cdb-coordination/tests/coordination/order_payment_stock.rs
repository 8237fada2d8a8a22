//! The shop of the example: its process is killed before each of its requests, and each answer is
//! lost. Money, stock and orders agree in the end, and each order takes effect once.

#[path = "../../examples/order_payment_stock/killed.rs"]
mod killed;
#[path = "../../examples/order_payment_stock/process.rs"]
mod process;
#[path = "../../examples/order_payment_stock/shop.rs"]
mod shop;
#[path = "../../examples/order_payment_stock/trial.rs"]
mod trial;

use std::time::Duration;

use crate::backend::Backend;
use cdb_emulator::{Effect, Fault};
use futures::stream::{self, StreamExt as _};

use crate::child::process;
use killed::{Killed, Task};
use process::{Account, Process};
use trial::{Trial, place_orders};

/// How many cases run concurrently.
const TOGETHER: usize = 10;

/// A poll interval so long that the first process never searches for messages of others.
const NO_POLL: Duration = Duration::from_secs(10);
const EAGER: Duration = Duration::from_millis(50);

fn account(backend: &Backend, container: &str) -> Account {
    Account {
        endpoint: backend.endpoint.clone(),
        key: backend.key.clone(),
        database: backend.database.clone(),
        container: container.to_owned(),
    }
}

struct World {
    backend: Backend,
    trial: Trial,
}

impl World {
    async fn new() -> Self {
        let backend = Backend::start(1, None).await;
        let trial = Trial::new(account(&backend, "orders")).await;
        Self {
            trial: trial.expect("the shop opens"),
            backend,
        }
    }

    fn start(&self, interval: Duration, granted: Option<u64>) -> Process {
        Process::start(&self.trial.account, interval, granted).expect("a process starts")
    }

    async fn settled(&self) {
        self.trial.settled().await.expect("both orders end");
    }

    async fn check(&self, case: &str) {
        self.trial.check(case).await.expect("all agree");
    }
}

/// Counts the requests of both orders without faults and without searches.
async fn requests() -> u64 {
    let world = World::new().await;
    let process = world.start(NO_POLL, None);
    place_orders(&process);
    world.settled().await;
    world.check("undisturbed").await;
    let sent = process.limit.wanted();
    process.kill();
    sent
}

/// Kills a process after `granted` requests; another process finishes.
async fn killed_after(granted: u64) {
    let case = format!("killed after {granted} requests");
    let world = World::new().await;
    let first = world.start(NO_POLL, Some(granted));
    place_orders(&first);
    tokio::select! {
        () = first.died() => {}
        () = world.settled() => {}
    };
    first.kill();
    let second = world.start(EAGER, None);
    place_orders(&second);
    world.settled().await;
    world.check(&case).await;
    second.kill();
}

/// Loses the answer to request `number` after its effect.
async fn answer_lost(number: u64) {
    let world = World::new().await;
    let emulator = or_skip!(&world.backend.emulator);
    let process = world.start(EAGER, None);
    let lost = Fault::once(Effect::DropAnswer);
    let number = u32::try_from(number).expect("a small number");
    emulator.inject(lost.after(number));
    place_orders(&process);
    world.settled().await;
    world.check(&format!("answer {number} lost")).await;
    process.kill();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_may_die_before_any_of_its_requests() {
    let requests = requests().await;
    assert!(requests >= 20, "only {requests} requests were sent");
    let cases = (0..=requests).map(killed_after);
    stream::iter(cases).buffer_unordered(TOGETHER).count().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_answer_may_be_lost() {
    let cases = (0..=requests().await).map(answer_lost);
    stream::iter(cases).buffer_unordered(TOGETHER).count().await;
}

#[tokio::test]
#[ignore = "started as a process by the other test"]
async fn one_of_the_processes() {
    let task = Task::from_env().expect("a valid task");
    ok!(killed::serve(&task.expect("a task")));
}

/// `cargo run -p cdb-coordination --example order_payment_stock -- killed` does so at every step.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_may_be_killed_by_a_signal() {
    let backend = Backend::start(1, None).await;
    let account = |granted| account(&backend, &format!("killed-after-{granted}"));
    let killed = Killed::at_every(5, account, || process("order_payment_stock")).await;
    let killed = killed.expect("all agree");
    assert!(killed.steps >= 20, "{}\n{killed}", Killed::HEADER);
}
