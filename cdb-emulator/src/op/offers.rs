//! Offers: the throughput of containers and databases, read, queried and replaced.

use http::{HeaderMap, Method};
use rusqlite::Connection;
use serde_json::{Value, json};

use super::{list, listing, not_allowed};
use crate::charge;
use crate::error::ServiceError;
use crate::route::{Resource, header};
use crate::service::{Answer, Asked, Service, now_secs};
use crate::store::offers::Offer;

/// Request units per second of a container that was created without saying how many.
const DEFAULT: u64 = 400;
/// Least and most request units per second.
const MANUAL: std::ops::RangeInclusive<u64> = 400..=1_000_000;
/// Least and most request units per second that scale by themselves.
const AUTOSCALE: std::ops::RangeInclusive<u64> = 1000..=1_000_000;

pub(super) fn dispatch(
    service: &Service,
    asked: &Asked,
    resource: &Resource,
) -> Result<Answer, ServiceError> {
    let connection = service.store.lock();
    let answer = match (resource, &asked.method) {
        (Resource::Offers, &Method::GET) => list("Offers", "", all(&connection)?),
        (Resource::Offers, &Method::POST) => {
            let found = listing::query(asked, all(&connection)?)?;
            list("Offers", "", found)
        }
        (Resource::Offer(rid), &Method::GET) => {
            let offer = Offer::find(&connection, rid)?;
            Answer::json(200, &offer.to_json()).with("etag", offer.etag)
        }
        (Resource::Offer(rid), &Method::PUT) => replace(service, &connection, asked, rid)?,
        _ => return Err(not_allowed(asked)),
    };
    Ok(answer.charged(charge::METADATA))
}

fn all(connection: &Connection) -> Result<Vec<Value>, ServiceError> {
    let all = Offer::all(connection)?;
    Ok(all.iter().map(Offer::to_json).collect())
}

fn replace(
    service: &Service,
    connection: &Connection,
    asked: &Asked,
    rid: &str,
) -> Result<Answer, ServiceError> {
    let offer = Offer::find(connection, rid)?;
    if header(&asked.headers, "if-match").is_some_and(|etag| etag != offer.etag) {
        return Err(ServiceError::precondition_failed());
    }
    let body: Value = serde_json::from_slice(&asked.body)?;
    let content = &body["content"];
    if content["offerAutopilotSettings"].is_object() {
        autoscale(&content["offerAutopilotSettings"])?;
    } else {
        manual(&content["offerThroughput"])?;
    }
    offer.replace(connection, content, now_secs())?;
    service.throughput.limit_by_offers();
    let offer = Offer::find(connection, rid)?;
    Ok(Answer::json(200, &offer.to_json())
        .with("etag", offer.etag)
        .with("x-ms-offer-replace-pending", "false"))
}

/// The throughput that the headers of a creation ask for.
pub(super) fn asked_for(headers: &HeaderMap) -> Result<Option<Value>, ServiceError> {
    let manual_header = header(headers, "x-ms-offer-throughput");
    let settings = header(headers, "x-ms-cosmos-offer-autopilot-settings");
    match (manual_header, settings) {
        (Some(_), Some(_)) => Err(ServiceError::bad_request(
            "Both x-ms-offer-throughput and x-ms-cosmos-offer-autopilot-settings are given; give one of them.",
        )),
        (Some(units), None) => {
            let units = manual(&serde_json::from_str(units).unwrap_or_default())?;
            Ok(Some(json!({ "offerThroughput": units })))
        }
        (None, Some(settings)) => {
            let settings: Value = serde_json::from_str(settings).unwrap_or_default();
            autoscale(&settings)?;
            Ok(Some(json!({
                "offerThroughput": settings["maxThroughput"].as_u64().map(|most| most / 10),
                "offerAutopilotSettings": settings,
            })))
        }
        (None, None) => Ok(None),
    }
}

/// The throughput of a container that was created without saying which, in a database that shares none.
pub(super) fn default_content(enforced: Option<u32>) -> Value {
    json!({ "offerThroughput": enforced.map_or(DEFAULT, u64::from) })
}

fn manual(units: &Value) -> Result<u64, ServiceError> {
    let units = units.as_u64();
    let valid = units.filter(|units| MANUAL.contains(units) && units % 100 == 0);
    valid.ok_or_else(|| {
        ServiceError::bad_request(format!(
            "The offer should have valid throughput values between {} and {} inclusive in increments of 100.",
            MANUAL.start(),
            MANUAL.end()
        ))
    })
}

fn autoscale(settings: &Value) -> Result<(), ServiceError> {
    let most = settings["maxThroughput"].as_u64();
    if most.is_some_and(|most| AUTOSCALE.contains(&most) && most % 1000 == 0) {
        return Ok(());
    }
    Err(ServiceError::bad_request(format!(
        "The offer should have valid autoscale maximum throughput values between {} and {} inclusive in increments of 1000.",
        AUTOSCALE.start(),
        AUTOSCALE.end()
    )))
}
