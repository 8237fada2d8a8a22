//! `/_admin/…`: the Rust API of [`Emulator`](crate::Emulator) for programs in any language.

use std::sync::PoisonError;
use std::time::Duration;

use http::Method;
use serde::{Deserialize, Serialize};

use crate::error::ServiceError;
use crate::fault::{Fault, FaultPlan};
use crate::observe::RequestLog;
use crate::op;
use crate::request::Request;
use crate::response::Response;
use crate::server_state::ServerState;
use crate::store::Lane;

/// Responds to a request below `/_admin`.
pub(crate) async fn respond(
    server: &ServerState,
    request: &Request,
) -> Result<Response, ServiceError> {
    match request.path.as_str() {
        "/_admin/faults" => faults(server, request),
        "/_admin/requests" => requests(server, &request.method),
        "/_admin/split" => split(server, request).await,
        _ => Err(ServiceError::new(
            404,
            0,
            "NotFound",
            "Use /_admin/faults, /_admin/requests or /_admin/split.",
        )),
    }
}

fn faults(server: &ServerState, request: &Request) -> Result<Response, ServiceError> {
    match request.method {
        Method::GET => {}
        Method::POST => server.faults.apply(checked(&request.body)?),
        Method::DELETE => server.faults.clear(),
        _ => {
            return Err(ServiceError::method_not_allowed(
                &request.method,
                "GET, POST and DELETE",
            ));
        }
    }
    Response::typed(&server.faults.all())
}

/// Reads a plan and checks it.
fn checked(body: &[u8]) -> Result<FaultPlan, ServiceError> {
    let plan: FaultPlan = serde_json::from_slice(body)?;
    plan.check().map_err(ServiceError::bad_request)?;
    Ok(plan)
}

fn requests(server: &ServerState, method: &Method) -> Result<Response, ServiceError> {
    let log = &server.service.log;
    let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
    match *method {
        Method::GET => {}
        Method::DELETE => *log = RequestLog::default(),
        _ => return Err(ServiceError::method_not_allowed(method, "GET and DELETE")),
    }
    Response::typed(&*log)
}

/// The body of `POST /_admin/split`: the physical partition to split.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Split {
    database: String,
    container: String,
    range: String,
    /// The time during which the partition and its children respond with 410/1007.
    #[serde(default)]
    duration_ms: u64,
}

/// The response of `/_admin/split`: the ids of the two halves.
#[derive(Debug, Serialize)]
struct Halves {
    children: [String; 2],
}

async fn split(server: &ServerState, request: &Request) -> Result<Response, ServiceError> {
    if request.method != Method::POST {
        return Err(ServiceError::method_not_allowed(&request.method, "POST"));
    }
    let at: Split = serde_json::from_slice(&request.body)?;
    let splitter = server.service.clone();
    let (database, container, range) =
        (at.database.clone(), at.container.clone(), at.range.clone());
    let work = move || op::ranges::split(&splitter, (&database, &container), &range);
    let children = server.service.store.run(Lane::Write, work).await?;
    if at.duration_ms > 0 {
        let incomplete = Fault::splitting((&at.database, &at.container), &at.range, &children);
        let duration = Duration::from_millis(at.duration_ms);
        server.faults.add(incomplete.lasting(duration));
    }
    Response::typed(&Halves { children })
}
