//! Logs at the most verbose level contain no keys, tokens or signatures.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};

use cdb_emulator::Emulator;
use cdb_provider::{CosmosDBProvider, CosmosDBProviderConfig};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use super::{without_key, work_gets_done};

const KEY: &str =
    "c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2Vjcg==";
const OTHER: &str =
    "b3RoZXItb3RoZXItb3RoZXItb3RoZXItb3RoZXItb3RoZXItb3RoZXItb3RoZXItb3RoZXItb3RoZXItb3RoZQ==";

/// Records everything that is logged, spans and their fields included.
#[derive(Clone, Debug, Default)]
struct Everything(Arc<Mutex<String>>);

impl Everything {
    fn text(&self) -> String {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn keep(&self, record: impl FnOnce(&mut dyn Visit)) {
        let mut text = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        record(&mut Fields(&mut text));
    }
}

struct Fields<'a>(&'a mut String);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        writeln!(self.0, "{field}={value:?}").expect("a string takes everything");
    }
}

impl Subscriber for Everything {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        self.keep(|fields| span.record(fields));
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        self.keep(|fields| values.record(fields));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        self.keep(|fields| event.record(fields));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

fn holds_no_secret(text: &str) {
    for secret in [
        KEY,
        OTHER,
        "secretsecret",
        "sig=",
        "sig%3D",
        "type%3Dmaster",
    ] {
        assert!(!text.contains(secret), "`{secret}` is shown");
    }
}

#[tokio::test]
async fn no_log_or_display_text_contains_a_key_or_signature() {
    let log = Everything::default();
    let _logged = tracing::subscriber::set_default(log.clone());
    let emulator = Emulator::builder().key(KEY).start().await;
    let emulator = emulator.expect("the emulator starts");
    let config = |key: &str, other: Option<&str>| CosmosDBProviderConfig {
        key: key.to_owned(),
        secondary_key: other.map(str::to_owned),
        ..without_key(emulator.endpoint())
    };
    // The first key is refused, which is logged; the second one works.
    let provider = CosmosDBProvider::new_with_config(config(OTHER, Some(KEY))).await;
    let provider = provider.expect("the second key is good");
    work_gets_done(&provider, "talkative").await;
    let refused = CosmosDBProvider::new_with_config(config(OTHER, None)).await;
    let refused = refused.expect_err("the key is another one");
    let text = log.text();
    assert!(
        text.contains("retrying") && text.contains("cosmosdb"),
        "it was logged"
    );
    holds_no_secret(&text);
    holds_no_secret(&format!(
        "{refused} {refused:?} {provider:?} {:?}",
        config(OTHER, Some(KEY))
    ));
    holds_no_secret(&format!("{:?}", provider.container()));
}
