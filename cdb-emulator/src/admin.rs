//! `/_admin/…`: what the Rust API of [`Emulator`](crate::Emulator) does, for programs in any language.

use std::sync::{Arc, PoisonError};

use http::Method;
use serde::{Deserialize, Serialize};

use crate::error::ServiceError;
use crate::fault::{FaultPlan, FaultState, Latency};
use crate::http_front::Front;
use crate::local::{json, not_allowed};
use crate::observe::RequestLog;
use crate::op;
use crate::service::{Answer, Asked, Service};
use crate::store::Lane;

/// The answer of `/_admin/faults`.
#[derive(Debug, Serialize)]
pub(crate) struct FaultsState {
    pub(crate) seed: u64,
    pub(crate) latency: Latency,
    pub(crate) faults: Vec<FaultState>,
}

/// Answers a request below `/_admin`.
pub(crate) async fn answer(front: &Front, asked: &Asked) -> Result<Answer, ServiceError> {
    match asked.path.as_str() {
        "/_admin/faults" => faults(front, asked),
        "/_admin/requests" => requests(front, &asked.method),
        "/_admin/split" => split(&front.service, asked).await,
        _ => Err(ServiceError::new(
            404,
            0,
            "NotFound",
            "There are /_admin/faults, /_admin/requests and /_admin/split.",
        )),
    }
}

fn faults(front: &Front, asked: &Asked) -> Result<Answer, ServiceError> {
    match asked.method {
        Method::GET => {}
        Method::POST => front.faults.carry_out(checked(&asked.body)?),
        Method::DELETE => front.faults.clear(),
        _ => return Err(not_allowed(&asked.method, "GET, POST and DELETE")),
    }
    json(&front.faults.all())
}

/// A plan that can be carried out as a whole.
fn checked(body: &[u8]) -> Result<FaultPlan, ServiceError> {
    let plan: FaultPlan = serde_json::from_slice(body)?;
    plan.check().map_err(ServiceError::bad_request)?;
    Ok(plan)
}

fn requests(front: &Front, method: &Method) -> Result<Answer, ServiceError> {
    let log = &front.service.log;
    let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
    match *method {
        Method::GET => {}
        Method::DELETE => *log = RequestLog::default(),
        _ => return Err(not_allowed(method, "GET and DELETE")),
    }
    json(&*log)
}

/// `POST /_admin/split`: which physical partition is to be cut in two.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Split {
    database: String,
    container: String,
    range: String,
}

/// The answer of `/_admin/split`: the ids of the two halves.
#[derive(Debug, Serialize)]
struct Halves {
    children: [String; 2],
}

async fn split(service: &Arc<Service>, asked: &Asked) -> Result<Answer, ServiceError> {
    if asked.method != Method::POST {
        return Err(not_allowed(&asked.method, "POST"));
    }
    let at: Split = serde_json::from_slice(&asked.body)?;
    let splitter = service.clone();
    let work = move || op::ranges::split(&splitter, (&at.database, &at.container), &at.range);
    let children = service.store.run(Lane::Write, work).await?;
    json(&Halves { children })
}
