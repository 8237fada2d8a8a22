//! One sequence of operations, run against both emulators side by side.

use std::collections::{HashMap, HashSet};

use cdb_second_store::Theirs;
use http::Method;
use serde_json::{Value, json};

use crate::compare::{EtagIs, Seen, compare};
use crate::differences::{Meeting, allowed};
use crate::exchange::{Answer, DATABASE, Emulator, Request, Resource};
use crate::operation::{Condition, Operation, Place, Side, Tag};
use crate::ours::Ours;
use crate::theirs;

/// Pages after which a continuation is taken for one that never ends.
const PAGES: usize = 1000;

/// Both emulators.
#[derive(Debug)]
pub(crate) struct Pair {
    ours: Ours,
    theirs: Theirs,
    containers: usize,
}

/// The result of a sequence.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) operations: usize,
    /// How often each known difference occurred.
    pub(crate) differences: HashMap<&'static str, usize>,
}

/// The ETags that one emulator gave to a document, oldest first.
type History = Vec<String>;

/// A sequence while it runs.
struct Run<'a> {
    pair: &'a mut Pair,
    container: String,
    ours: HashMap<String, History>,
    theirs: HashMap<String, History>,
    tally: Tally,
}

impl Pair {
    /// Starts both, with one database.
    pub(crate) async fn start() -> Self {
        let mut pair = Self {
            ours: Ours::start().await,
            theirs: theirs::start(),
            containers: 0,
        };
        let database = Request::new(Method::POST, Resource::Databases);
        pair.both(&database.json(json!({ "id": DATABASE }))).await;
        pair
    }

    /// Sends a request that both must accept.
    async fn both(&mut self, request: &Request) {
        let ours = self.ours.ask(request).await;
        let theirs = self.theirs.ask(request).await;
        assert!(ours.status < 300, "{request:?}: {ours:?}");
        assert!(theirs.status < 300, "{request:?}: {theirs:?}");
    }

    /// Runs a sequence in a container of its own. The error describes the first difference.
    pub(crate) async fn run(
        &mut self,
        definition: &Value,
        operations: &[Operation],
    ) -> Result<Tally, String> {
        self.containers += 1;
        let container = format!("c{}", self.containers);
        let mut definition = definition.clone();
        definition["id"] = container.clone().into();
        let create = Request::new(Method::POST, Resource::Containers);
        self.both(&create.json(definition)).await;
        let mut run = Run {
            pair: self,
            container: container.clone(),
            ours: HashMap::new(),
            theirs: HashMap::new(),
            tally: Tally::default(),
        };
        let outcome = run.all(operations).await;
        let tally = run.tally;
        let delete = Request::new(Method::DELETE, Resource::Container(container));
        self.both(&delete).await;
        outcome.map(|()| tally)
    }
}

fn etag(known: &HashMap<String, History>, place: &Place, tag: Tag) -> String {
    let history = known.get(&place.to_string()).map_or(&[][..], Vec::as_slice);
    let found = match tag {
        Tag::Any => return "*".to_owned(),
        Tag::Current => history.last(),
        Tag::Former => history.iter().rev().nth(1),
        Tag::Foreign => None,
    };
    found.map_or("\"unknown\"", String::as_str).to_owned()
}

impl Run<'_> {
    /// Runs the operations, then compares all stored documents.
    async fn all(&mut self, operations: &[Operation]) -> Result<(), String> {
        for (at, operation) in operations.iter().enumerate() {
            let outcome = self.one(operation).await;
            outcome.map_err(|why| format!("operation {at} of {}: {why}", operations.len()))?;
        }
        let outcome = self.one(&Operation::Feed(None, None)).await;
        outcome.map_err(|why| format!("what is stored at the end: {why}"))
    }

    async fn one(&mut self, operation: &Operation) -> Result<(), String> {
        let (ours, theirs) = self.ask(operation).await;
        let findings = compare(operation, &ours, &theirs);
        self.tally.operations += 1;
        let meeting = Meeting {
            operation,
            ours: &ours,
            theirs: &theirs,
        };
        if findings.is_empty() {
            self.learn(operation, &ours, &theirs);
            return Ok(());
        }
        for (aspect, one, other) in &findings {
            let Some(difference) = allowed(aspect, &meeting) else {
                return Err(format!(
                    "{operation}\ndiffers in its {aspect}\nours:   {one}\ntheirs: {other}\n\
                     ours said   {}\ntheirs said {}",
                    told(&ours.answer),
                    told(&theirs.answer)
                ));
            };
            *self.tally.differences.entry(difference).or_default() += 1;
        }
        self.forget(operation).await;
        Ok(())
    }

    async fn ask(&mut self, operation: &Operation) -> (Seen, Seen) {
        let known = &self.ours;
        let etags = |place: &Place, tag| etag(known, place, tag);
        let request = operation.request(Side::Ours, &self.container, &etags);
        let (answer, rows) = all_pages(&mut self.pair.ours, request).await;
        let ours = seen(known, operation, answer, rows);
        let known = &self.theirs;
        let etags = |place: &Place, tag| etag(known, place, tag);
        let request = operation.request(Side::Theirs, &self.container, &etags);
        let (answer, rows) = all_pages(&mut self.pair.theirs, request).await;
        (ours, seen(known, operation, answer, rows))
    }

    /// Keeps the ETags of written documents.
    fn learn(&mut self, operation: &Operation, ours: &Seen, theirs: &Seen) {
        for (known, seen) in [(&mut self.ours, ours), (&mut self.theirs, theirs)] {
            for (place, etag) in written(operation, &seen.answer) {
                known.entry(place.to_string()).or_default().push(etag);
            }
        }
    }

    /// After a known difference the two may hold different documents: takes those out on both
    /// sides.
    async fn forget(&mut self, operation: &Operation) {
        let mut done = HashSet::new();
        for place in operation.touches() {
            if place.id.is_empty() || !done.insert(place.to_string()) {
                continue;
            }
            let delete = Operation::Delete(place.clone(), Condition::default());
            let request = delete.request(Side::Ours, &self.container, &|_, _| String::new());
            self.pair.ours.ask(&request).await;
            self.pair.theirs.ask(&request).await;
            self.ours.remove(&place.to_string());
            self.theirs.remove(&place.to_string());
        }
    }
}

fn told(answer: &Answer) -> String {
    format!(
        "{}/{} etag {:?} {}",
        answer.status, answer.substatus, answer.etag, answer.body
    )
}

/// The documents that an answer names with an ETag, after a write that succeeded.
fn written(operation: &Operation, answer: &Answer) -> Vec<(Place, String)> {
    match operation {
        Operation::Write(_, place, body, _) if answer.status < 300 => {
            let id = body["id"].as_str().unwrap_or_default().to_owned();
            let key = place.key.clone();
            let etag = answer.etag.clone().into_iter();
            etag.map(|etag| {
                (
                    Place {
                        key: key.clone(),
                        id: id.clone(),
                    },
                    etag,
                )
            })
            .collect()
        }
        Operation::Patch(place, ..) if answer.status < 300 => {
            let etag = answer.etag.clone().into_iter();
            etag.map(|etag| (place.clone(), etag)).collect()
        }
        Operation::Batch(key, steps) if answer.status == 200 => {
            let results = answer.body.as_array().map_or(&[][..], Vec::as_slice);
            let steps = steps.iter().zip(results);
            let written = steps.filter(|(step, _)| !matches!(step.kind, "Read" | "Delete"));
            written
                .filter_map(|(step, result)| {
                    let etag = result["eTag"].as_str()?.to_owned();
                    let (key, id) = (key.clone(), step.id.clone());
                    Some((Place { key, id }, etag))
                })
                .collect()
        }
        _ => Vec::new(),
    }
}

fn seen(
    known: &HashMap<String, History>,
    operation: &Operation,
    answer: Answer,
    rows: Vec<Value>,
) -> Seen {
    let before = match operation {
        Operation::Write(_, place, ..)
        | Operation::Read(place, _)
        | Operation::Delete(place, _)
        | Operation::Patch(place, ..) => known
            .get(&place.to_string())
            .and_then(|history| history.last()),
        _ => None,
    };
    let etag = match (&answer.etag, before) {
        (None, _) => EtagIs::Missing,
        (Some(etag), Some(before)) if etag == before => EtagIs::AsBefore,
        _ => EtagIs::New,
    };
    Seen { answer, etag, rows }
}

/// Sends a request and follows continuations to the end.
async fn all_pages(emulator: &mut impl Emulator, mut request: Request) -> (Answer, Vec<Value>) {
    let mut rows = Vec::new();
    for _ in 0..PAGES {
        let answer = emulator.ask(&request).await;
        let page = answer.body.get("Documents").and_then(Value::as_array);
        rows.extend(page.cloned().unwrap_or_default());
        if !follow(&mut request, &answer) {
            return (answer, rows);
        }
    }
    panic!("the continuation never ends: {request:?}");
}

/// Requests the next page, if there is one.
fn follow(request: &mut Request, answer: &Answer) -> bool {
    let Some(next) = answer.continuation.clone() else {
        return false;
    };
    request
        .headers
        .retain(|(name, _)| *name != "x-ms-continuation");
    request.headers.push(("x-ms-continuation", next));
    true
}

impl Tally {
    /// Adds another sequence's.
    pub(crate) fn add(&mut self, other: Self) {
        self.operations += other.operations;
        for (name, count) in other.differences {
            *self.differences.entry(name).or_default() += count;
        }
    }
}
