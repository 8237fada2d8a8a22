//! `/_admin/…`: what the Rust API of [`Emulator`](crate::Emulator) does, for programs in any language.

use std::sync::PoisonError;

use http::Method;
use serde::Serialize;

use crate::error::ServiceError;
use crate::fault::{FaultPlan, FaultState, Latency};
use crate::http_front::Front;
use crate::local::{json, not_allowed};
use crate::observe::RequestLog;
use crate::service::{Answer, Asked};

/// The answer of `/_admin/faults`.
#[derive(Debug, Serialize)]
pub(crate) struct FaultsState {
    pub(crate) seed: u64,
    pub(crate) latency: Latency,
    pub(crate) faults: Vec<FaultState>,
}

/// Answers a request below `/_admin`.
pub(crate) fn answer(front: &Front, asked: &Asked) -> Result<Answer, ServiceError> {
    match asked.path.as_str() {
        "/_admin/faults" => faults(front, asked),
        "/_admin/requests" => requests(front, &asked.method),
        _ => Err(ServiceError::new(
            404,
            0,
            "NotFound",
            "There are /_admin/faults and /_admin/requests.",
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
