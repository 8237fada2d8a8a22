//! Operations on the account, databases and containers.

use http::Method;
use serde_json::{Value, json};

use super::{listing, offers};
use crate::account::Service;
use crate::op::charge;
use crate::protocol::{
    ContainerName, Request, Resource, Response, Scripts, ServiceError, flag, header, route,
};
use crate::rules;
use crate::store::offers::{NewOffer, Offer, Origin};
use crate::store::{Connection, Container, Database, Savepoint};

pub(in crate::op) fn dispatch(
    service: &Service,
    request: &Request,
) -> Result<Response, ServiceError> {
    let connection = service.store.lock();
    // A definition that is rejected halfway, or a killed process, leaves no partial state.
    let connection = Savepoint::begin(&connection)?;
    let response = match (&request.resource, &request.method) {
        (Resource::Account, &Method::GET) => Response::json(200, &account(service, request)),
        (Resource::Databases, _) => databases(service, &connection, request)?,
        (Resource::Database(id), &Method::GET) => {
            Response::json(200, &Database::find(&connection, id)?.to_json())
        }
        (Resource::Database(id), &Method::DELETE) => {
            Database::delete(&connection, id)?;
            Response::empty(204)
        }
        (Resource::Containers(db), _) => containers(service, &connection, request, db)?,
        (Resource::Container(name), _) => container(service, &connection, request, name)?,
        (Resource::Scripts(name, kind), _) => {
            let container = Container::find(&connection, &name.database, &name.container)?;
            empty_list(request, *kind, &container)?
        }
        (Resource::Script(..), _) => return Err(ServiceError::no_scripts()),
        (Resource::Database(_), method) => {
            return Err(ServiceError::method_not_allowed(method, "GET or DELETE"));
        }
        (_, method) => return Err(ServiceError::method_not_allowed(method, "GET")),
    };
    connection.commit()?;
    Ok(response.charged(charge::METADATA))
}

fn databases(
    service: &Service,
    connection: &Connection,
    request: &Request,
) -> Result<Response, ServiceError> {
    match request.method {
        Method::GET => Ok(Response::list("Databases", "", all_databases(connection)?)),
        Method::POST if route::is_query(&request.headers) => {
            let found = listing::query(service, request, all_databases(connection)?)?;
            Ok(Response::list("Databases", "", found))
        }
        Method::POST => {
            let body: Value = request.json()?;
            let id = rules::name(&body)?;
            let throughput = offers::requested(&request.headers)?;
            let database = Database::create(connection, id, service.clock.now_secs())?;
            if let Some(content) = throughput {
                let offer = NewOffer {
                    resource: &database.self_link(),
                    rid: &database.rid(),
                    content: &content,
                    origin: Origin::Creation,
                };
                Offer::create(connection, &offer, service.clock.now_secs())?;
            }
            Ok(Response::json(201, &database.to_json()))
        }
        _ => Err(ServiceError::method_not_allowed(
            &request.method,
            "GET or POST",
        )),
    }
}

fn all_databases(connection: &Connection) -> Result<Vec<Value>, ServiceError> {
    let all = Database::all(connection)?;
    Ok(all.iter().map(Database::to_json).collect())
}

fn all_containers(connection: &Connection, database: &str) -> Result<Vec<Value>, ServiceError> {
    let all = Container::all(connection, database)?;
    Ok(all.iter().map(Container::to_json).collect())
}

fn containers(
    service: &Service,
    connection: &Connection,
    request: &Request,
    database: &str,
) -> Result<Response, ServiceError> {
    match request.method {
        Method::GET => {
            let database = Database::find(connection, database)?;
            let all = all_containers(connection, &database.id)?;
            Ok(Response::list("DocumentCollections", &database.rid(), all))
        }
        Method::POST if route::is_query(&request.headers) => {
            let database = Database::find(connection, database)?;
            let all = all_containers(connection, &database.id)?;
            let found = listing::query(service, request, all)?;
            Ok(Response::list(
                "DocumentCollections",
                &database.rid(),
                found,
            ))
        }
        Method::POST => create_container(service, connection, request, database),
        _ => Err(ServiceError::method_not_allowed(
            &request.method,
            "GET or POST",
        )),
    }
}

fn create_container(
    service: &Service,
    connection: &Connection,
    request: &Request,
    database: &str,
) -> Result<Response, ServiceError> {
    let mut definition = rules::definition(request.json()?, None)?;
    if let Some(minutes) = service.settings.version_minutes
        && definition["changeFeedPolicy"].is_null()
    {
        definition["changeFeedPolicy"] = json!({ "retentionDuration": minutes });
    }
    let now = service.clock.now_secs();
    let throughput = offers::requested(&request.headers)?;
    let by_throughput = || throughput.as_ref().map_or(1, offers::partitions);
    let ranges = service.settings.physical_partitions;
    let ranges = ranges.unwrap_or_else(by_throughput);
    let parent = Database::find(connection, database)?;
    let shared = Offer::of(connection, &parent.self_link())?.is_some();
    let created = Container::create(connection, &parent.id, &definition, ranges, now)?;
    let by_default = || offers::default_content(service.settings.throughput);
    let offer = match throughput {
        Some(content) => Some((content, Origin::Creation)),
        None => (!shared).then(|| (by_default(), Origin::Default)),
    };
    if let Some((content, origin)) = offer {
        let offer = NewOffer {
            resource: &created.self_link(),
            rid: &created.rid(),
            content: &content,
            origin,
        };
        Offer::create(connection, &offer, now)?;
    }
    Ok(Response::json(201, &created.to_json()).with("etag", created.etag))
}

/// Sets the progress of the index transformation of a container.
pub(crate) fn set_index_progress(
    service: &Service,
    name: &ContainerName,
    percent: u8,
) -> Result<(), ServiceError> {
    let connection = service.store.read()?;
    let container = Container::find(&connection, &name.database, &name.container)?;
    service.index_builds.set_progress(container.number, percent);
    Ok(())
}

fn container(
    service: &Service,
    connection: &Connection,
    request: &Request,
    name: &ContainerName,
) -> Result<Response, ServiceError> {
    let container = Container::find(connection, &name.database, &name.container)?;
    let is_write = request.method != Method::GET;
    if is_write && header(&request.headers, "if-match").is_some_and(|etag| etag != container.etag) {
        return Err(ServiceError::precondition_failed());
    }
    match request.method {
        Method::GET => {
            let (mut body, now) = (container.to_json(), service.clock.now_secs());
            if flag(
                &request.headers,
                "x-ms-documentdb-populatepartitionstatistics",
            ) {
                body["statistics"] = container.statistics(connection, now)?.into();
            }
            let mut response = Response::json(200, &body);
            if flag(&request.headers, "x-ms-documentdb-populatequotainfo") {
                let name = "x-ms-documentdb-collection-index-transformation-progress";
                let progress = service.index_builds.progress(container.number);
                response = response.with(name, progress.to_string());
                let [quota, usage] = container.quota(connection, now)?;
                response = response.with("x-ms-resource-quota", quota);
                response = response.with("x-ms-resource-usage", usage);
            }
            Ok(response.with("etag", container.etag))
        }
        Method::PUT => {
            let definition = request.json()?;
            let definition = rules::definition(definition, Some(&container.definition))?;
            container.replace(connection, &definition)?;
            let replaced = Container::find(connection, &name.database, &name.container)?;
            if replaced.policy() != container.policy() {
                let builds = &service.index_builds;
                builds.begin(container.number, container.policy().json());
            }
            Ok(Response::json(200, &replaced.to_json()).with("etag", replaced.etag))
        }
        Method::DELETE => {
            container.delete(connection)?;
            Ok(Response::empty(204))
        }
        _ => Err(ServiceError::method_not_allowed(
            &request.method,
            "GET, PUT or DELETE",
        )),
    }
}

/// Lists the scripts or the conflicts of a container, which has none.
fn empty_list(
    request: &Request,
    kind: Scripts,
    container: &Container,
) -> Result<Response, ServiceError> {
    if request.method == Method::GET || route::is_query(&request.headers) {
        return Ok(Response::list(kind.list(), &container.rid(), Vec::new()));
    }
    Err(match kind {
        Scripts::Conflicts => ServiceError::method_not_allowed(&request.method, "GET or POST"),
        _ => ServiceError::no_scripts(),
    })
}

fn account(service: &Service, request: &Request) -> Value {
    let host = header(&request.headers, "host");
    let locations = service.regions.locations(host);
    json!({
        "_self": "", "id": "emulator", "_rid": "emulator", "media": "//media/", "addresses": "//addresses/",
        "_dbs": "//dbs/", "writableLocations": locations["writableLocations"], "readableLocations": locations["readableLocations"],
        "enableMultipleWriteLocations": locations["enableMultipleWriteLocations"],
        "enablePerPartitionFailoverBehavior": service.settings.partition_failover,
        "userConsistencyPolicy": { "defaultConsistencyLevel": service.settings.consistency },
        "userReplicationPolicy": { "asyncReplication": false, "minReplicaSetSize": 1, "maxReplicasetSize": 4 },
        "systemReplicationPolicy": { "minReplicaSetSize": 1, "maxReplicasetSize": 4 },
        "readPolicy": { "primaryReadCoefficient": 1, "secondaryReadCoefficient": 1 },
        "queryEngineConfiguration": "{}",
    })
}
