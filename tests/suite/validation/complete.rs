//! The lists name every validation function that the installed duroxide has.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Waker};

use async_trait::async_trait;
use duroxide::provider_validations::{ProviderFactory, test_execution_isolation};
use duroxide::providers::Provider;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

const LISTS: [&str; 3] = [
    include_str!("mod.rs"),
    include_str!("long_polling.rs"),
    include_str!("race_replay.rs"),
];

#[test]
fn every_validation_function_of_the_installed_duroxide_is_called() {
    let called: BTreeSet<&str> = LISTS
        .into_iter()
        .flat_map(|list| list.split(|c: char| !c.is_alphanumeric() && c != '_'))
        .collect();
    let mut count = 0;
    let mut missing = Vec::new();
    let folder = sources();
    for entry in std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{folder:?}: {error}")) {
        let path = entry.expect("an entry").path();
        let module = path
            .file_stem()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        if module == "mod" {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("a source can be read");
        for rest in text
            .lines()
            .filter_map(|line| line.strip_prefix("pub async fn "))
        {
            let name: String = rest
                .chars()
                .take_while(|c| c.is_alphanumeric() || *c == '_')
                .collect();
            count += 1;
            if !called.contains(&*name) {
                missing.push(format!("{module}::{name}"));
            }
        }
    }
    assert!(
        count >= 233,
        "only {count} functions found: has duroxide moved them?"
    );
    assert!(missing.is_empty(), "not called: {missing:?}");
}

/// Returns the folder that holds the sources of duroxide's validation functions.
///
/// A validation function begins with a log event, which carries the path of its source as the
/// compiler saw it. That path holds for a registry, path, git or vendored dependency. Cargo is not
/// asked: `cargo metadata --offline` fails unless the crates of all platforms are downloaded, and
/// `cargo test` downloads those of one.
fn sources() -> PathBuf {
    let seen = SourceFile::default();
    let _logged = tracing::subscriber::set_default(seen.clone());
    let mut context = Context::from_waker(Waker::noop());
    let polled = pin!(test_execution_isolation(&NoProvider)).poll(&mut context);
    assert!(polled.is_pending(), "it waits for its provider");
    let file = seen.0.get().expect("a validation function logs first");
    // A dependency inside this workspace has a path that is relative to the workspace's root.
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    root.join(file).parent().expect("a folder").to_owned()
}

/// A factory whose provider is never ready.
struct NoProvider;

#[async_trait]
impl ProviderFactory for NoProvider {
    async fn create_provider(&self) -> Arc<dyn Provider> {
        std::future::pending().await
    }
}

/// Keeps the source file of the first event that duroxide logs.
#[derive(Clone, Default)]
struct SourceFile(Arc<OnceLock<&'static str>>);

impl Subscriber for SourceFile {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn event(&self, event: &Event<'_>) {
        if let Some(file) = event.metadata().file() {
            // Only the first event counts.
            let _first = self.0.get_or_init(|| file);
        }
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}
