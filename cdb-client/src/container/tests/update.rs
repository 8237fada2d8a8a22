//! Updates that read, change and replace, with other writers and lost answers.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use cdb_emulator::WELL_KNOWN_KEY;
use cdb_model::Document as _;
use serde_json::{Value, json};

use super::shop::{Profile, Shop, profile, shop};
use crate::account::CosmosClient;
use crate::container::ContainerClient;
use crate::credential::MasterKey;
use crate::error::Error;
use crate::transport::{
    Delivery, HttpRequest, HttpResponse, Script, Step, Transport, TransportError,
};

fn stored(name: &str, etag: &str) -> Step {
    marked(name, etag, "another")
}

/// A document with the mark of the last replacement.
fn ours(name: &str, etag: &str) -> Step {
    marked(name, etag, "$mark")
}

fn marked(name: &str, etag: &str, mark: &str) -> Step {
    Step::json(&json!({
        "id": "profile:ann", "type": "profile", "customer": "ann", "name": name, "writeMark": mark,
        "_etag": etag, "_ts": 1,
    }))
}

/// Plays a script. Knows the mark of the last replacement.
#[derive(Clone, Debug)]
struct Marking {
    script: Script,
    mark: Arc<Mutex<String>>,
}

#[async_trait]
impl Transport for Marking {
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, TransportError> {
        let sent: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        if let Some(mark) = sent["writeMark"].as_str() {
            mark.clone_into(&mut self.mark.lock().unwrap());
        }
        let mut answer = self.script.send(request).await?;
        let text = std::str::from_utf8(&answer.body).unwrap();
        answer.body = text.replace("$mark", &self.mark.lock().unwrap()).into();
        Ok(answer)
    }
}

fn marking(script: &Script) -> ContainerClient<Shop> {
    let transport = Marking {
        script: script.clone(),
        mark: Arc::default(),
    };
    let client = CosmosClient::builder("https://account.documents.azure.com")
        .credential(MasterKey::new(WELL_KNOWN_KEY).unwrap())
        .transport(transport)
        .build();
    client.unwrap().database("db").container("c")
}

fn written() -> Step {
    Step::status(200).header("etag", "\"new\"")
}

fn lost() -> Step {
    Step::NoAnswer(Delivery::Unknown)
}

fn shout(profile: &mut Profile) -> String {
    profile.name.push('!');
    profile.name.clone()
}

async fn shouted(steps: impl IntoIterator<Item = Step>) -> (Result<String, Error>, Vec<String>) {
    let script = Script::new(steps);
    let updated = marking(&script).update(&profile().key(), shout).await;
    assert_eq!(script.steps_left(), 0);
    let requests = script.requests();
    let names = requests.iter().filter(|request| request.method == "PUT");
    let names = names.map(|request| {
        let sent: Value = serde_json::from_slice(&request.body).unwrap();
        let etag = request.headers["if-match"].to_str().unwrap();
        format!("{etag} {}", sent["name"].as_str().unwrap())
    });
    (updated, names.collect())
}

#[tokio::test(start_paused = true)]
async fn a_lost_race_starts_over_with_the_other_writers_document() {
    let race = Step::refusal(412, 0);
    let steps = [stored("Ann", "1"), race, stored("Bea", "2"), written()];
    let (updated, sent) = shouted(steps).await;
    assert_eq!(updated.unwrap(), "Bea!");
    assert_eq!(sent, ["1 Ann!", "2 Bea!"]);
}

#[tokio::test(start_paused = true)]
async fn after_a_lost_answer_the_mark_of_the_stored_document_decides() {
    let read = || stored("Ann", "1");
    // It took place, and another writer may have patched the document since.
    for name in ["Ann!", "Bea"] {
        let (updated, sent) = shouted([read(), lost(), ours(name, "2")]).await;
        assert_eq!((updated.unwrap().as_str(), sent.len()), ("Ann!", 1));
    }
    // It did not: the same change is sent again. Had it arrived late, the second would fail with 412.
    let (updated, sent) = shouted([read(), lost(), read(), written()]).await;
    assert_eq!(updated.unwrap(), "Ann!");
    assert_eq!(sent, ["1 Ann!", "1 Ann!"]);
    let late = [
        read(),
        lost(),
        read(),
        Step::refusal(412, 0),
        ours("Ann!", "2"),
    ];
    let (updated, sent) = shouted(late).await;
    assert_eq!((updated.unwrap().as_str(), sent.len()), ("Ann!", 2));
    // Another writer has changed the document since, perhaps after this change.
    // Its content proves nothing, even if it is what this writer wanted.
    for name in ["Bea", "Ann!"] {
        let (updated, _) = shouted([read(), lost(), stored(name, "3")]).await;
        let error = updated.unwrap_err();
        assert!(error.is_ambiguous(), "{error}");
        assert!(error.to_string().contains("another writer"), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_update_whose_answers_are_all_lost_ends_at_the_deadline() {
    let read = || stored("Ann", "1");
    let script = Script::new(
        [read()]
            .into_iter()
            .chain((0..900).flat_map(|_| [lost(), read()])),
    );
    let started = tokio::time::Instant::now();
    let updated = shop(&script).update(&profile().key(), shout).await;
    assert!(updated.unwrap_err().is_ambiguous());
    assert!(script.steps_left() > 0 && started.elapsed().as_secs() < 60);
}

#[tokio::test(start_paused = true)]
async fn a_change_can_refuse_and_a_missing_document_is_an_error() {
    let script = Script::new([stored("Ann", "1"), Step::refusal(404, 0)]);
    let container = shop(&script);
    let key = profile().key();
    let refused: Result<(), Box<dyn std::error::Error>> =
        container.try_update(&key, |_| Err("no".into())).await;
    assert_eq!(refused.unwrap_err().to_string(), "no");
    let missing = container.update(&key, shout).await.unwrap_err();
    assert!(missing.is_not_found());
    assert!(missing.to_string().contains("profile:ann"), "{missing}");
    assert_eq!(script.requests().len(), 2);
}
