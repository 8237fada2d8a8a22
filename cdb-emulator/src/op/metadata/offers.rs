//! Operations on offers: the throughput of containers and databases.

use http::{HeaderMap, Method};
use serde_json::{Value, json};

use super::listing;
use crate::account::Service;
use crate::op::charge;
use crate::protocol::{Request, Resource, Response, ServiceError, header};
use crate::store::Connection;
use crate::store::offers::Offer;

/// Throughput of a container that was created without an offer.
const DEFAULT: u64 = 400;
/// The most throughput of a physical partition (scaling-provisioned-throughput-best-practices).
const OF_PARTITION: u64 = 10_000;
/// The valid range of manual throughput.
const MANUAL: std::ops::RangeInclusive<u64> = 400..=1_000_000;
/// The valid range of autoscale throughput.
const AUTOSCALE: std::ops::RangeInclusive<u64> = 1000..=1_000_000;

pub(in crate::op) fn dispatch(
    service: &Service,
    request: &Request,
) -> Result<Response, ServiceError> {
    let connection = service.store.lock();
    let response = match (&request.resource, &request.method) {
        (Resource::Offers, &Method::GET) => Response::list("Offers", "", all(&connection)?),
        (Resource::Offers, &Method::POST) => {
            let found = listing::query(service, request, all(&connection)?)?;
            Response::list("Offers", "", found)
        }
        (Resource::Offer(rid), &Method::GET) => {
            let offer = Offer::find(&connection, rid)?;
            Response::json(200, &offer.to_json()).with("etag", offer.etag)
        }
        (Resource::Offer(rid), &Method::PUT) => replace(service, &connection, request, rid)?,
        (Resource::Offers, method) => {
            return Err(ServiceError::method_not_allowed(method, "GET or POST"));
        }
        (_, method) => return Err(ServiceError::method_not_allowed(method, "GET or PUT")),
    };
    Ok(response.charged(charge::METADATA))
}

fn all(connection: &Connection) -> Result<Vec<Value>, ServiceError> {
    let all = Offer::all(connection)?;
    Ok(all.iter().map(Offer::to_json).collect())
}

fn replace(
    service: &Service,
    connection: &Connection,
    request: &Request,
    rid: &str,
) -> Result<Response, ServiceError> {
    let offer = Offer::find(connection, rid)?;
    if header(&request.headers, "if-match").is_some_and(|etag| etag != offer.etag) {
        return Err(ServiceError::precondition_failed());
    }
    let body: Value = request.json()?;
    let content = &body["content"];
    if content["offerAutopilotSettings"].is_object() {
        autoscale(&content["offerAutopilotSettings"])?;
    } else {
        manual(&content["offerThroughput"])?;
    }
    offer.replace(connection, content, service.clock.now_secs())?;
    service.throughput.limit_by_offers();
    let offer = Offer::find(connection, rid)?;
    Ok(Response::json(200, &offer.to_json())
        .with("etag", offer.etag)
        .with("x-ms-offer-replace-pending", "false"))
}

/// Returns the throughput that the headers of a create request set.
pub(in crate::op) fn requested(headers: &HeaderMap) -> Result<Option<Value>, ServiceError> {
    let manual_header = header(headers, "x-ms-offer-throughput");
    let settings = header(headers, "x-ms-cosmos-offer-autopilot-settings");
    match (manual_header, settings) {
        (Some(_), Some(_)) => Err(ServiceError::bad_request(
            "x-ms-offer-throughput and x-ms-cosmos-offer-autopilot-settings exclude each other; send one of them.",
        )),
        (Some(units), None) => {
            let units = manual(&serde_json::from_str(units).unwrap_or_default())?;
            Ok(Some(json!({ "offerThroughput": units })))
        }
        (None, Some(settings)) => {
            let settings: Value = serde_json::from_str(settings).unwrap_or_default();
            autoscale(&settings)?;
            Ok(Some(json!({
                "offerThroughput": settings["maxThroughput"].as_u64().map(|max| max / 10),
                "offerAutopilotSettings": settings,
            })))
        }
        (None, None) => Ok(None),
    }
}

/// Returns the number of physical partitions that a new container with this offer has.
pub(in crate::op) fn partitions(content: &Value) -> u32 {
    let most = &content["offerAutopilotSettings"]["maxThroughput"];
    let units = most.as_u64().or(content["offerThroughput"].as_u64());
    let partitions = units.unwrap_or_default().div_ceil(OF_PARTITION).max(1);
    u32::try_from(partitions).unwrap_or(u32::MAX)
}

/// Returns the offer of a container that was created without one, in a database without shared
/// throughput.
pub(in crate::op) fn default_content(enforced: Option<u32>) -> Value {
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
    let max = settings["maxThroughput"].as_u64();
    if max.is_some_and(|max| AUTOSCALE.contains(&max) && max % 1000 == 0) {
        return Ok(());
    }
    Err(ServiceError::bad_request(format!(
        "The offer should have valid autoscale maximum throughput values between {} and {} inclusive in increments of 1000.",
        AUTOSCALE.start(),
        AUTOSCALE.end()
    )))
}
