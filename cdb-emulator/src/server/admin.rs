//! `/_admin/…`: the Rust API of [`Emulator`](crate::Emulator) for programs in any language.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use http::Method;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::state::ServerState;
use crate::account::{EmulatorError, Failover, RequestLog};
use crate::fault::Fault;
use crate::op;
use crate::protocol::{ContainerName, Request, Response, ServiceError};
use crate::store::Lane;

/// The routes below `/_admin`, and their methods.
const ROUTES: [(&str, &str); 7] = [
    ("settings", "GET and POST"),
    ("faults", "DELETE"),
    ("requests", "GET and DELETE"),
    ("split", "POST"),
    ("failover", "POST"),
    ("regions", "GET and POST"),
    ("indexes", "POST"),
];

/// Responds to a request below `/_admin`.
pub(crate) async fn serve_controls(
    server: &Arc<ServerState>,
    request: &Request,
) -> Result<Response, ServiceError> {
    let service = &server.service;
    let route = request.path.strip_prefix("/_admin/").unwrap_or_default();
    let (is_get, is_post) = (
        request.method == Method::GET,
        request.method == Method::POST,
    );
    match route {
        "settings" if is_get => settings(server),
        "settings" if is_post => change_settings(server, request).await,
        "faults" if request.method == Method::DELETE => {
            server.faults.clear();
            settings(server)
        }
        "requests" if is_get || request.method == Method::DELETE => {
            let mut log = service.log.lock().unwrap_or_else(PoisonError::into_inner);
            if !is_get {
                *log = RequestLog::default();
            }
            Response::typed(&*log)
        }
        "split" if is_post => split(server, request).await,
        "failover" if is_post => {
            let failover: Failover = request.json()?;
            let moved = service.regions.failover(&failover);
            moved.map_err(ServiceError::bad_request)?;
            Response::typed(&service.regions.all())
        }
        "regions" if is_get => Response::typed(&service.regions.all()),
        "regions" if is_post => change_regions(server, request),
        "indexes" if is_post => set_index_progress(server, request).await,
        _ => Err(refusal(route, &request.method)),
    }
}

/// Returns the error for a route that does not exist or does not have the method.
fn refusal(route: &str, method: &Method) -> ServiceError {
    if let Some((_, allowed)) = ROUTES.iter().find(|(name, _)| *name == route) {
        return ServiceError::method_not_allowed(method, allowed);
    }
    let names = ROUTES.map(|(name, _)| format!("/_admin/{name}")).join(", ");
    ServiceError::new(404, 0, "NotFound", format!("Use one of {names}."))
}

/// Responds with the settings in force but the key, the seed, and the progress of the faults.
fn settings(server: &ServerState) -> Result<Response, ServiceError> {
    let mut fields = server.settings().to_map();
    fields.remove("key");
    let faults = serde_json::to_value(server.faults.all())?;
    fields.extend(serde_json::from_value::<Map<String, Value>>(faults)?);
    Response::typed(&fields)
}

async fn change_settings(
    server: &Arc<ServerState>,
    request: &Request,
) -> Result<Response, ServiceError> {
    let changes: Map<String, Value> = request.json()?;
    let of = server.clone();
    let work = move || {
        let result = of.change(|settings| settings.with(changes));
        result.map_err(|error| match error {
            EmulatorError::Storage { reason } => ServiceError::internal(reason),
            refused => ServiceError::bad_request(refused.to_string()),
        })
    };
    server.service.store.run(Lane::Write, work).await?;
    settings(server)
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
    let at: Split = request.json()?;
    let splitter = server.service.clone();
    let name = ContainerName::new(&at.database, &at.container);
    let range = at.range.clone();
    let work = move || op::ranges::split(&splitter, &name, &range);
    let children = server.service.store.run(Lane::Write, work).await?;
    if at.duration_ms > 0 {
        let incomplete =
            Fault::splitting(&at.range, &children).in_container(&at.database, &at.container);
        let duration = Duration::from_millis(at.duration_ms);
        server.faults.add(incomplete.lasting(duration));
    }
    Response::typed(&Halves { children })
}

/// The body of `POST /_admin/regions`: changes of the regions, in this order.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RegionChanges {
    restore: Option<String>,
    remove: Option<String>,
    #[serde(default)]
    move_global_endpoint: bool,
}

fn change_regions(server: &ServerState, request: &Request) -> Result<Response, ServiceError> {
    let regions = &server.service.regions;
    let changes: RegionChanges = request.json()?;
    for (name, removed) in [(changes.restore, false), (changes.remove, true)] {
        if let Some(name) = name {
            let result = regions.set_removed(&name, removed);
            result.map_err(ServiceError::bad_request)?;
        }
    }
    if changes.move_global_endpoint {
        regions.move_global_endpoint();
    }
    Response::typed(&regions.all())
}

/// The body of `POST /_admin/indexes`: the progress of the index transformation of a container.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct IndexProgress {
    database: String,
    container: String,
    progress: u8,
}

async fn set_index_progress(
    server: &ServerState,
    request: &Request,
) -> Result<Response, ServiceError> {
    let of: IndexProgress = request.json()?;
    let service = server.service.clone();
    let name = ContainerName::new(&of.database, &of.container);
    let work = move || op::set_index_progress(&service, &name, of.progress);
    server.service.store.run(Lane::Point, work).await?;
    Response::typed(&Value::Object(Map::new()))
}
