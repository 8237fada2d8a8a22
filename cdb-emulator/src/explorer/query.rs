//! A query of the page: it runs like a client's query and returns all information about its cost.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderValue, Method};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::plan::{Plan, Report};
use super::system::is_system;
use crate::account::Service;
use crate::protocol::{ContainerName, Request, Resource, Response, ServiceError};
use crate::store::{Container, Lane};
use crate::time::stopwatch;
use crate::{op, sql};

/// The default page size.
const PAGE: u32 = 50;

/// The number of pages that a request reads while system documents leave none of their rows.
const MOST_PAGES: usize = 20;

/// The body of a request.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct QueryRequest {
    database: String,
    container: String,
    query: String,
    #[serde(default)]
    scope: Scope,
    page_size: Option<u32>,
    continuation: Option<String>,
    /// Whether documents that libraries keep are left out of the rows.
    #[serde(default)]
    hide_system: bool,
}

/// The part of the container that the query reads.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Scope {
    /// The whole container, if the gateway can answer the query.
    #[default]
    Everything,
    /// One physical partition, by its id.
    Range(String),
    /// One logical partition, by its key: a value per level.
    PartitionKey(Vec<Value>),
}

/// The body of a response.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct QueryResult {
    /// The rows in their stored form.
    rows: Vec<Box<RawValue>>,
    /// The number of system documents that `rows` leaves out.
    hidden: usize,
    continuation: Option<String>,
    /// Request units.
    charge: f64,
    milliseconds: f64,
    plan: Plan,
    /// The numbers of loaded and returned documents, by the service's names.
    metrics: BTreeMap<String, f64>,
}

#[derive(Deserialize)]
struct Page {
    #[serde(rename = "Documents")]
    rows: Vec<Box<RawValue>>,
}

/// Runs a query until a page has rows to show, or the end.
pub(super) async fn run(
    service: &Arc<Service>,
    mut query: QueryRequest,
) -> Result<QueryResult, ServiceError> {
    let mut result = page(service, query.clone()).await?;
    for _ in 1..MOST_PAGES {
        if !result.rows.is_empty() || result.hidden == 0 || result.continuation.is_none() {
            break;
        }
        query.continuation = result.continuation.take();
        let next = page(service, query.clone()).await?;
        result.continuation = next.continuation;
        result.rows = next.rows;
        result.hidden += next.hidden;
        result.charge += next.charge;
        result.milliseconds += next.milliseconds;
    }
    Ok(result)
}

/// Reads one page.
async fn page(service: &Arc<Service>, query: QueryRequest) -> Result<QueryResult, ServiceError> {
    let hides_system = query.hide_system;
    let resource = Resource::Items(ContainerName::new(&query.database, &query.container));
    let request = Request {
        body: serde_json::to_vec(&serde_json::json!({ "query": query.query }))?.into(),
        ..Request::of(resource, Method::POST, headers(&query)?)
    };
    let started = stopwatch();
    let client = service.clone();
    let work = move || {
        let response = op::dispatch(&client, &request)?;
        let report = header(&response, "x-ms-cosmos-index-utilization").and_then(report);
        let connection = client.store.read()?;
        let container = Container::find(&connection, &query.database, &query.container)?;
        let select = sql::parse(&query.query)?;
        let plan = Plan::of(&select, container.policy(), &report.unwrap_or_default());
        Ok((response, plan, container.partition_key_paths()))
    };
    let (response, plan, partition_key) = service.store.run(Lane::Scan, work).await?;
    let mut rows = serde_json::from_slice::<Page>(&response.body)?.rows;
    let all = rows.len();
    rows.retain(|row| !(hides_system && is_system(row, &partition_key)));
    Ok(QueryResult {
        hidden: all - rows.len(),
        rows,
        continuation: header(&response, "x-ms-continuation").map(str::to_owned),
        charge: response.charge,
        milliseconds: started.elapsed().as_secs_f64() * 1000.0,
        plan,
        metrics: header(&response, "x-ms-documentdb-query-metrics")
            .map(metrics)
            .unwrap_or_default(),
    })
}

fn headers(query: &QueryRequest) -> Result<HeaderMap, ServiceError> {
    let page_size = query.page_size.unwrap_or(PAGE).to_string();
    let mut all = vec![
        ("content-type", "application/query+json".to_owned()),
        ("x-ms-documentdb-isquery", "True".to_owned()),
        ("x-ms-documentdb-populatequerymetrics", "True".to_owned()),
        ("x-ms-cosmos-populateindexmetrics", "True".to_owned()),
        ("x-ms-max-item-count", page_size),
    ];
    all.push(match &query.scope {
        Scope::Everything => (
            "x-ms-documentdb-query-enablecrosspartition",
            "True".to_owned(),
        ),
        Scope::Range(id) => ("x-ms-documentdb-partitionkeyrangeid", id.clone()),
        Scope::PartitionKey(values) => ("x-ms-documentdb-partitionkey", ascii(values)?),
    });
    if let Some(continuation) = &query.continuation {
        all.push(("x-ms-continuation", continuation.clone()));
    }
    let mut headers = HeaderMap::new();
    for (name, value) in all {
        let value = HeaderValue::try_from(value).map_err(|_| {
            ServiceError::bad_request(format!(
                "{name} has characters that are not valid in a header."
            ))
        })?;
        headers.insert(name, value);
    }
    Ok(headers)
}

/// Returns JSON for a header: characters beyond ASCII are escaped.
pub(super) fn ascii(values: &[Value]) -> Result<String, ServiceError> {
    let mut escaped = String::new();
    for character in serde_json::to_string(values)?.chars() {
        if character.is_ascii() {
            escaped.push(character);
            continue;
        }
        for unit in character.encode_utf16(&mut [0; 2]) {
            // Writing to a `String` cannot fail.
            let _ = write!(escaped, "\\u{unit:04x}");
        }
    }
    Ok(escaped)
}

fn header<'a>(response: &'a Response, name: &str) -> Option<&'a str> {
    let mut headers = response.headers.iter();
    headers
        .find(|(found, _)| *found == name)
        .map(|(_, value)| value.as_str())
}

/// Reads the report on indexes, which is JSON in base64.
fn report(report: &str) -> Option<Report> {
    serde_json::from_slice(&STANDARD.decode(report).ok()?).ok()
}

/// Reads `name=number;…`.
fn metrics(report: &str) -> BTreeMap<String, f64> {
    let pairs = report.split(';').filter_map(|pair| pair.split_once('='));
    pairs
        .filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?)))
        .collect()
}
