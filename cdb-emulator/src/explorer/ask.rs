//! A query of the page: asked as a client would, with everything that the service tells about its cost.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Instant;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderValue, Method};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::plan::{Plan, Report};
use crate::error::ServiceError;
use crate::op;
use crate::route::Resource;
use crate::service::{Answer, Asked, Service};
use crate::sql;
use crate::store::{Container, Lane};

/// Rows per page when the page does not say.
const PAGE: u32 = 50;

/// What the page sends.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Question {
    database: String,
    container: String,
    query: String,
    #[serde(default)]
    scope: Scope,
    page_size: Option<u32>,
    continuation: Option<String>,
}

/// Which part of the container is asked.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Scope {
    /// All of it, as far as the gateway does that.
    #[default]
    Everything,
    /// One physical partition, by its id.
    Range(String),
    /// One logical partition, by its key: a value per level.
    PartitionKey(Vec<Value>),
}

/// What the page shows.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Found {
    /// The rows, as they are stored.
    rows: Vec<Box<RawValue>>,
    continuation: Option<String>,
    /// Request units.
    charge: f64,
    milliseconds: f64,
    plan: Plan,
    /// What was loaded and returned, by the service's names.
    metrics: BTreeMap<String, f64>,
}

#[derive(Deserialize)]
struct Page {
    #[serde(rename = "Documents")]
    rows: Vec<Box<RawValue>>,
}

/// Asks a query.
pub(super) async fn query(
    service: &Arc<Service>,
    question: Question,
) -> Result<Found, ServiceError> {
    let resource = Resource::Items(question.database.clone(), question.container.clone());
    let asked = Asked {
        method: Method::POST,
        path: String::new(),
        headers: headers(&question)?,
        body: serde_json::to_vec(&serde_json::json!({ "query": question.query }))?.into(),
    };
    let started = Instant::now();
    let client = service.clone();
    let work = move || {
        let answer = op::dispatch(&client, &asked, &resource)?;
        let report = header(&answer, "x-ms-cosmos-index-utilization").and_then(report);
        let connection = client.store.read()?;
        let container = Container::find(&connection, &question.database, &question.container)?;
        let select = sql::parse(&question.query)?;
        let plan = Plan::of(&select, container.policy(), &report.unwrap_or_default());
        Ok((answer, plan))
    };
    let (answer, plan) = service.store.run(Lane::Scan, work).await?;
    let page: Page = serde_json::from_slice(&answer.body)?;
    Ok(Found {
        rows: page.rows,
        continuation: header(&answer, "x-ms-continuation").map(str::to_owned),
        charge: answer.charge,
        milliseconds: started.elapsed().as_secs_f64() * 1000.0,
        plan,
        metrics: header(&answer, "x-ms-documentdb-query-metrics")
            .map(metrics)
            .unwrap_or_default(),
    })
}

fn headers(question: &Question) -> Result<HeaderMap, ServiceError> {
    let page_size = question.page_size.unwrap_or(PAGE).to_string();
    let mut all = vec![
        ("content-type", "application/query+json".to_owned()),
        ("x-ms-documentdb-isquery", "True".to_owned()),
        ("x-ms-documentdb-populatequerymetrics", "True".to_owned()),
        ("x-ms-cosmos-populateindexmetrics", "True".to_owned()),
        ("x-ms-max-item-count", page_size),
    ];
    all.push(match &question.scope {
        Scope::Everything => (
            "x-ms-documentdb-query-enablecrosspartition",
            "True".to_owned(),
        ),
        Scope::Range(id) => ("x-ms-documentdb-partitionkeyrangeid", id.clone()),
        Scope::PartitionKey(values) => ("x-ms-documentdb-partitionkey", ascii(values)?),
    });
    if let Some(continuation) = &question.continuation {
        all.push(("x-ms-continuation", continuation.clone()));
    }
    let mut headers = HeaderMap::new();
    for (name, value) in all {
        let value = HeaderValue::try_from(value).map_err(|_| {
            ServiceError::bad_request(format!("{name} has characters that no header can have."))
        })?;
        headers.insert(name, value);
    }
    Ok(headers)
}

/// JSON that can stand in a header: everything but ASCII is escaped.
fn ascii(values: &[Value]) -> Result<String, ServiceError> {
    let mut escaped = String::new();
    for character in serde_json::to_string(values)?.chars() {
        if character.is_ascii() {
            escaped.push(character);
            continue;
        }
        for unit in character.encode_utf16(&mut [0; 2]) {
            // Writing to a text never fails.
            let _ = write!(escaped, "\\u{unit:04x}");
        }
    }
    Ok(escaped)
}

fn header<'a>(answer: &'a Answer, name: &str) -> Option<&'a str> {
    let mut headers = answer.headers.iter();
    headers
        .find(|(found, _)| *found == name)
        .map(|(_, value)| value.as_str())
}

/// The report on indexes is JSON in base64.
fn report(report: &str) -> Option<Report> {
    serde_json::from_slice(&STANDARD.decode(report).ok()?).ok()
}

/// `name=number;…`.
fn metrics(report: &str) -> BTreeMap<String, f64> {
    let pairs = report.split(';').filter_map(|pair| pair.split_once('='));
    pairs
        .filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?)))
        .collect()
}
