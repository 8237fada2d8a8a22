//! Runs the command in this process, on an emulator.

#[macro_use]
#[path = "../../../tests/support/ok.rs"]
mod ok;

use std::sync::Arc;
use std::time::Duration;

use cdb_cli::{Cli, Exit};
use cdb_client::{Bootstrap, ContainerClient, CosmosClient, DatabaseClient, MasterKey};
use cdb_emulator::Emulator;
use cdb_model::Container;
use cdb_provider::documents::Durable;
use cdb_provider::{CosmosDBProvider, CosmosDBProviderConfig};
use duroxide::runtime::RuntimeOptions;

/// The output and exit code of a run.
#[derive(Debug)]
pub(crate) struct Run {
    line: String,
    pub(crate) out: String,
    pub(crate) err: String,
    pub(crate) exit: Exit,
}

/// The arguments of a command: a line that is divided at its spaces, or a list.
pub(crate) trait Arguments {
    fn list(&self) -> Vec<&str>;
}

impl Arguments for str {
    fn list(&self) -> Vec<&str> {
        self.split(' ').collect()
    }
}

impl Arguments for [&str] {
    fn list(&self) -> Vec<&str> {
        self.to_vec()
    }
}

impl<const COUNT: usize> Arguments for [&str; COUNT] {
    fn list(&self) -> Vec<&str> {
        self.to_vec()
    }
}

impl Arguments for Vec<&str> {
    fn list(&self) -> Vec<&str> {
        self.clone()
    }
}

/// Runs the command for the provider's container.
pub(crate) async fn cdb(arguments: &(impl Arguments + ?Sized)) -> Run {
    run(&Cli::<Durable>::new("duroxide"), arguments, &[]).await
}

/// Runs a command. The snapshot does not show the `hidden` arguments.
pub(crate) async fn run(
    cli: &Cli<impl Container>,
    arguments: &(impl Arguments + ?Sized),
    hidden: &[&str],
) -> Run {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let arguments = arguments.list();
    let all = ["cdb"].iter().chain(&arguments).chain(hidden);
    let exit = cli.run_with(all, &mut out, &mut err).await;
    Run {
        line: format!("$ cdb {}", arguments.join(" ")),
        out: String::from_utf8(out).expect("UTF-8"),
        err: String::from_utf8(err).expect("UTF-8"),
        exit,
    }
}

/// Runs a command, which ends with this exit code.
pub(crate) async fn ends(exit: Exit, run: impl Future<Output = Run>) -> Run {
    let run = run.await;
    assert_eq!(run.exit, exit, "{run:?}");
    run
}

impl Run {
    /// Returns the run as a terminal shows it.
    pub(crate) fn shown(&self) -> String {
        let mut text = format!("{}\n{}", self.line, self.out);
        if !self.err.is_empty() {
            text.push_str("[standard error]\n");
            text.push_str(&self.err);
        }
        if self.exit != Exit::Ok {
            text += &["[exit code ", &(self.exit as u8).to_string(), "]\n"].concat();
        }
        text
    }

    /// Checks that standard output contains a text.
    #[track_caller]
    pub(crate) fn prints(&self, text: &str) {
        assert!(self.out.contains(text), "no `{text}`: {self:?}");
    }

    /// Checks that standard error contains a text.
    #[track_caller]
    pub(crate) fn complains(&self, text: &str) {
        assert!(self.err.contains(text), "no `{text}`: {self:?}");
    }

    /// Compares the run with a snapshot. The name of the snapshot is the command.
    #[track_caller]
    pub(crate) fn is(&self, name: &str) {
        snapshot(name, &ageless(&self.shown()));
    }
}

/// Replaces every span of time and every charge: `12 s` and `250 ms` become `# s`, `33 RU` becomes
/// `# RU`.
fn ageless(text: &str) -> String {
    let units = ["ms", "s", "min", "h", "d", "RU", "requests"];
    let line = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let is_unit = |word: &&str| units.contains(&word.trim_end_matches([',', ':', ';']));
        let is_number =
            |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
        let shown = words.iter().enumerate().map(|(at, &word)| {
            if is_number(word) && words.get(at + 1).is_some_and(is_unit) {
                "#"
            } else if word == "ms" {
                "s"
            } else {
                word
            }
        });
        shown.collect::<Vec<_>>().join(" ") + "\n"
    };
    text.lines().map(line).collect()
}

/// Compares a text with a file in `tests/snapshots`.
#[track_caller]
pub(crate) fn snapshot(name: &str, text: &str) {
    let path = format!("{}/tests/snapshots/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    expect_test::expect_file![path].assert_eq(text);
}

/// An emulator with the database `duroxide`.
pub(crate) struct Account {
    pub(crate) emulator: Emulator,
}

/// Options of a runtime that loses the lock of no turn on a slow machine.
pub(crate) fn long_locks() -> RuntimeOptions {
    RuntimeOptions {
        orchestrator_lock_timeout: Duration::from_secs(3600),
        ..RuntimeOptions::default()
    }
}

impl Account {
    /// Starts an account without a database.
    pub(crate) async fn empty() -> Self {
        let emulator = Emulator::start().await.expect("the emulator starts");
        Self { emulator }
    }

    /// Starts an account with the provider's container.
    pub(crate) async fn start() -> Self {
        let account = Self::empty().await;
        account.container::<Durable>().await;
        account
    }

    pub(crate) fn client(&self) -> CosmosClient {
        let key = MasterKey::new(self.emulator.key()).expect("a key");
        let client = CosmosClient::builder(self.emulator.endpoint())
            .credential(key)
            .build();
        client.expect("a client")
    }

    pub(crate) fn database(&self) -> DatabaseClient {
        self.client().database("duroxide")
    }

    pub(crate) async fn container<C: Container>(&self) -> ContainerClient<C> {
        let container = self
            .database()
            .bootstrap("duroxide", Bootstrap::CreateIfMissing)
            .await;
        container.expect("it opens")
    }

    /// Opens the provider on this account.
    pub(crate) async fn store(&self, config: &CosmosDBProviderConfig) -> Arc<CosmosDBProvider> {
        let store = CosmosDBProvider::on(self.container::<Durable>().await, config).await;
        Arc::new(store.expect("the container opens"))
    }

    /// Runs the command for the provider's container on this account.
    pub(crate) async fn cdb(&self, arguments: &(impl Arguments + ?Sized)) -> Run {
        self.run(&Cli::<Durable>::new("duroxide"), arguments).await
    }

    /// Runs a command on this account.
    pub(crate) async fn run(
        &self,
        cli: &Cli<impl Container>,
        arguments: &(impl Arguments + ?Sized),
    ) -> Run {
        let endpoint = self.emulator.endpoint();
        let hidden = [
            "--endpoint",
            &endpoint,
            "--key",
            self.emulator.key(),
            "--database",
            "duroxide",
            "--container",
            "duroxide",
        ];
        let mut run = run(cli, arguments, &hidden).await;
        for text in [&mut run.out, &mut run.err] {
            *text = text.replace(&endpoint, "http://localhost:8081/");
        }
        run
    }
}
