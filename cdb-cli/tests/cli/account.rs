//! The account check on the emulator: each question gets a yes, and a no from a service that is made
//! to do something else. A service of the latter kind is the emulator behind a network that changes
//! requests or answers, or the emulator with another setting or a fault.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;
use cdb_cli::account::{Answer, PROBES, Subject, run};
use cdb_cli::{Cli, Exit};
use cdb_client::credential::{Authorization, Credential, SigningContext};
use cdb_client::transport::http::{HeaderValue, Method};
use cdb_client::transport::{HttpRequest, HttpResponse, SimulatedTime, Transport, TransportError};
use cdb_client::{CosmosClient, MasterKey};
use cdb_emulator::{Consistency, DataRole, Effect, Emulator, Fault, OperationKind, Settings};
use cdb_provider::documents::Durable;

use crate::harness;

const HOME: &str = "West US";
const SATELLITE: &str = "East US";
const IDENTITY: &str = "account-check";

/// What makes a service answer with no.
enum Lie {
    Setting(fn(Settings) -> Settings),
    Request(fn(&mut HttpRequest)),
    Answer(fn(&HttpRequest, &mut HttpResponse)),
}

use Lie::{Answer as Changed, Request as Sent, Setting};

/// A lie for each question.
const LIES: [(&str, Lie); PROBES.len()] = [
    (
        "several_partitions",
        Setting(|settings| settings.physical_partitions(1)),
    ),
    ("hashing", Changed(swap_partitions)),
    (
        "bulk",
        Changed(|_, answer| replace(&mut answer.body, "409", "201")),
    ),
    ("aggregates", Sent(always_first_partition)),
    ("group_by", Sent(always_first_partition)),
    (
        "distinct",
        Changed(|_, answer| replace(&mut answer.body, "group-4", "group-x")),
    ),
    ("read_many", Sent(always_first_partition)),
    (
        "order",
        Sent(|request| replace(&mut request.body, " DESC", " ASC")),
    ),
    (
        "index",
        Changed(|_, answer| {
            let progress = "x-ms-documentdb-collection-index-transformation-progress";
            answer
                .headers
                .insert(progress, HeaderValue::from_static("50"));
        }),
    ),
    (
        "extension",
        Sent(|request| {
            if request.method == Method::PUT {
                replace(&mut request.body, "LastWriterWins", "Custom");
                replace(
                    &mut request.body,
                    r#""excludedPaths":["#,
                    r#""excludedPaths":[{"path":"/other/*"},"#,
                );
            }
        }),
    ),
    ("container_etag", Sent(ignore_if_match)),
    (
        "full_batch",
        Changed(|_, answer| {
            replace(
                &mut answer.body,
                r#""statusCode":424"#,
                r#""statusCode":409"#,
            );
        }),
    ),
    ("false_condition", Sent(ignore_conditions)),
    (
        "read",
        Changed(|_, answer| replace(&mut answer.body, "resourceBody", "other")),
    ),
    (
        "size",
        Sent(|request| {
            if request.body.len() > 2 << 20 {
                replace(&mut request.body, "xxxx", "");
            }
        }),
    ),
    (
        "incr",
        Sent(|request| replace(&mut request.body, r#""value":3"#, r#""value":4"#)),
    ),
    ("ten_changes", refusing(OperationKind::Patch)),
    (
        "eleven_changes",
        Sent(|request| {
            replace(
                &mut request.body,
                r#",{"op":"set","path":"/change10","value":10}"#,
                "",
            );
        }),
    ),
    ("time_condition", Sent(ignore_conditions)),
    (
        "hot_document",
        Sent(|request| {
            let once = r#""path":"/count","value":1"#;
            replace(&mut request.body, once, r#""path":"/count","value":2"#);
        }),
    ),
    (
        "separators",
        Changed(|_, answer| replace(&mut answer.body, "|", "/")),
    ),
    (
        "other_scripts",
        Changed(|_, answer| replace(&mut answer.body, "ß", "ss")),
    ),
    ("keys_of_other_scripts", Changed(swap_partitions)),
    ("keys_with_control_characters", Changed(swap_partitions)),
    (
        "control_characters",
        Changed(|_, answer| replace(&mut answer.body, r"\t", " ")),
    ),
    (
        "from_beginning",
        Sent(|request| {
            if is_of_feed(request) && !request.headers.contains_key("if-none-match") {
                set(request, "if-none-match", "*");
            }
        }),
    ),
    (
        "from_now",
        Sent(|request| {
            if request
                .headers
                .get("if-none-match")
                .is_some_and(|etag| etag == "*")
            {
                request.headers.remove("if-none-match");
            }
        }),
    ),
    (
        "since",
        Sent(|request| drop(request.headers.remove("if-modified-since"))),
    ),
    (
        "resumed",
        Sent(|request| {
            if request.headers.contains_key("if-none-match") {
                set(request, "if-none-match", "*");
            }
        }),
    ),
    ("outdated_etag", Sent(ignore_if_match)),
    ("deletion_etag", Sent(ignore_if_match)),
    ("upsert_of_missing", refusing(OperationKind::Upsert)),
    (
        "unique_key",
        Changed(|_, answer| {
            if answer.status == 409 {
                answer.status = 400;
            }
        }),
    ),
    ("full_text", Sent(other_search)),
    ("missing_vector", Sent(other_search)),
    ("hybrid", Sent(other_search)),
    ("satellite_write", Changed(accept_everywhere)),
    ("satellite_bulk", Changed(accept_everywhere)),
    (
        "entra",
        Setting(|settings| settings.identity(IDENTITY, DataRole::DataReader)),
    ),
    (
        "one_write_region",
        Setting(|settings| settings.multiple_write_locations(true)),
    ),
    (
        "consistency",
        Setting(|settings| settings.consistency(Consistency::Eventual)),
    ),
    (
        "large_integers",
        Changed(|_, answer| {
            replace(&mut answer.body, "9007199254740992.0", "9007199254740993");
        }),
    ),
    (
        "expiry",
        Sent(|request| replace(&mut request.body, r#","ttl":1"#, "")),
    ),
    ("hub", refusing(OperationKind::Read)),
    (
        "latest_committed",
        Setting(|settings| settings.ignore_latest_committed(true)),
    ),
    (
        "without_version",
        Sent(|request| {
            if !request.headers.contains_key("x-ms-version") {
                set(request, "x-ms-version", "1999-01-01");
            }
        }),
    ),
    (
        "unknown_version",
        Sent(|request| set(request, "x-ms-version", "2020-07-15")),
    ),
    (
        "clock",
        Changed(|_, answer| drop(answer.headers.remove("date"))),
    ),
    ("latencies", refusing(OperationKind::Batch)),
    ("hello", refusing(OperationKind::Batch)),
];

const fn refusing(kind: OperationKind) -> Lie {
    match kind {
        OperationKind::Patch => Setting(|settings| settings.fault(refusal(OperationKind::Patch))),
        OperationKind::Upsert => Setting(|settings| settings.fault(refusal(OperationKind::Upsert))),
        OperationKind::Read => Setting(|settings| settings.fault(refusal(OperationKind::Read))),
        _ => Setting(|settings| settings.fault(refusal(OperationKind::Batch))),
    }
}

fn refusal(kind: OperationKind) -> Fault {
    Fault::always(Effect::error(400, 0)).on(kind)
}

fn replace(body: &mut cdb_client::transport::bytes::Bytes, from: &str, to: &str) {
    if let Ok(text) = std::str::from_utf8(body)
        && text.contains(from)
    {
        *body = text.replace(from, to).into();
    }
}

fn set(request: &mut HttpRequest, name: &'static str, value: &'static str) {
    request
        .headers
        .insert(name, HeaderValue::from_static(value));
}

fn ignore_if_match(request: &mut HttpRequest) {
    request.headers.remove("if-match");
}

fn ignore_conditions(request: &mut HttpRequest) {
    replace(&mut request.body, r#""condition":"#, r#""ignored":"#);
}

fn is_of_feed(request: &HttpRequest) -> bool {
    request.headers.contains_key("a-im")
}

/// The first half of the hash space belongs to the second partition.
fn swap_partitions(request: &HttpRequest, answer: &mut HttpResponse) {
    if request.url.ends_with("/pkranges") {
        replace(&mut answer.body, r#""id":"0""#, r#""id":"other""#);
        replace(&mut answer.body, r#""id":"1""#, r#""id":"0""#);
        replace(&mut answer.body, r#""id":"other""#, r#""id":"1""#);
    }
}

/// Queries see the first partition only.
fn always_first_partition(request: &mut HttpRequest) {
    if request.headers.contains_key("x-ms-documentdb-isquery") {
        set(request, "x-ms-documentdb-partitionkeyrangeid", "0");
    }
}

/// Searches for other words and the opposite vector.
fn other_search(request: &mut HttpRequest) {
    if request.headers.contains_key("x-ms-documentdb-isquery") {
        replace(&mut request.body, "red", "hill");
    }
    replace(&mut request.body, "[1.0,0.0,0.0]", "[0.0,0.0,1.0]");
}

/// Answers 201 to a write that another region refuses.
fn accept_everywhere(_: &HttpRequest, answer: &mut HttpResponse) {
    if answer.status == 403 {
        answer.status = 201;
    }
}

/// A network that lies.
#[derive(Clone)]
struct Network {
    time: SimulatedTime,
    lie: Option<&'static Lie>,
}

impl std::fmt::Debug for Network {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Network")
    }
}

#[async_trait]
impl Transport for Network {
    async fn send(&self, mut request: HttpRequest) -> Result<HttpResponse, TransportError> {
        if let Some(Sent(change)) = self.lie {
            change(&mut request);
        }
        let mut answer = self.time.send(request.clone()).await?;
        if let Some(Changed(change)) = self.lie {
            change(&request, &mut answer);
        }
        Ok(answer)
    }
}

#[derive(Debug)]
struct Token(String);

#[async_trait]
impl Credential for Token {
    async fn authorize(&self, _: &SigningContext<'_>) -> cdb_client::Result<Authorization> {
        Authorization::from_entra_token(&self.0, 0)
    }
}

/// Asks an emulator, and the questions on request too.
async fn ask(names: &[&str], lie: Option<&'static Lie>) -> Vec<(&'static str, Answer)> {
    let time = SimulatedTime::new();
    let settings = Emulator::builder()
        .clock(time.clock())
        .regions([HOME, SATELLITE])
        .identity(IDENTITY, DataRole::DataContributor);
    let settings = match lie {
        Some(Setting(change)) => change(settings),
        _ => settings,
    };
    let emulator = time.in_real_time(settings.start()).await;
    let emulator = emulator.expect("the emulator starts");
    let network = Network {
        time: time.clone(),
        lie,
    };
    let key = || MasterKey::new(emulator.key()).expect("a key");
    let token = Token(emulator.entra_token(IDENTITY, Duration::from_secs(3600)));
    let satellite = emulator.region_endpoint(SATELLITE).expect("a region");
    let at = |endpoint: String| {
        let client = CosmosClient::builder(endpoint).credential(key());
        client.transport(network.clone()).clock_of(&time)
    };
    let built =
        |builder: cdb_client::account::CosmosClientBuilder| builder.build().expect("a client");
    let subject = Subject::new(built(at(emulator.endpoint())))
        .with_satellite(built(at(satellite)))
        .with_entra(built(at(emulator.endpoint()).credential(token)));
    let report = run(&subject, names).await;
    assert_eq!(report.remaining, Vec::<String>::new());
    let answers = report.answers.into_iter();
    answers
        .map(|answered| (answered.probe.name, answered.answer))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn the_emulator_answers_each_question_with_yes() {
    for (name, answer) in ask(&[], None).await {
        assert!(matches!(answer, Answer::Yes(_)), "{name}: {answer}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_service_that_does_something_else_gets_a_no() {
    let mut believed = Vec::new();
    for (name, lie) in &LIES {
        let answers = ask(&[name], Some(lie)).await;
        println!("{name}: {}", answers[0].1);
        if !answers[0].1.is_no() {
            believed.push(format!("{name}: {}", answers[0].1));
        }
    }
    assert!(believed.is_empty(), "{}", believed.join("\n"));
}

#[test]
fn each_question_has_a_lie_and_names_files_that_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for (probe, (name, _)) in PROBES.iter().zip(&LIES) {
        assert_eq!(probe.name, *name);
        for file in probe.relied_on_by {
            assert!(root.join(file).is_file(), "{name} names {file}");
        }
    }
    let names: BTreeSet<_> = PROBES.iter().map(|probe| probe.name).collect();
    assert_eq!(names.len(), PROBES.len());
}

/// The report as the command gives it: the exit code tells whether correctness is at stake.
#[tokio::test]
async fn the_command_asks_single_questions_and_fails_for_required_ones_alone() {
    let emulator = Emulator::builder().consistency(Consistency::Eventual);
    let emulator = emulator.start().await.expect("the emulator starts");
    let options = &["--endpoint", &emulator.endpoint(), "--key", emulator.key()];
    let cli = Cli::<Durable>::new("duroxide");
    let ask = async |line: &str| harness::run(&cli, line, options).await;
    let required = ask("doctor --account --question consistency --question clock").await;
    assert_eq!(required.exit, Exit::Finding);
    required.prints("NO: Eventual");
    required.prints("consistency: relied on by cdb-client/src/partitions/session_token.rs");
    let measured = ask("doctor --account --question control_characters").await;
    assert_eq!(measured.exit, Exit::Ok);
    measured.prints("every assumption that correctness depends on holds");
    let one_region = ask("doctor --account --satellite").await;
    assert_eq!(one_region.exit, Exit::Usage);
    one_region.complains("the account has one region only");
    let unknown = ask("doctor --account --question typo").await;
    assert_eq!(unknown.exit, Exit::Usage);
    let alone = ask("doctor --question clock").await;
    alone.complains("--account");
    let json = ask("doctor --account --question clock --json").await;
    json.prints(r#""name": "clock""#);
    json.prints(r#""requestUnits": "#);
}
