//! Account, databases, containers.

use http::Method;
use rusqlite::Connection;
use serde_json::{Value, json};

use super::{list, listing, not_allowed, offers};
use crate::error::ServiceError;
use crate::route::{self, Resource, flag, header};
use crate::service::{Answer, Asked, Service, now_secs};
use crate::store::offers::{Offer, Origin};
use crate::store::{Container, Database};
use crate::{charge, rules};

pub(super) fn dispatch(
    service: &Service,
    asked: &Asked,
    resource: &Resource,
) -> Result<Answer, ServiceError> {
    let mut connection = service.store.lock();
    // A definition that is refused half-way, or a process that dies, leaves nothing behind.
    let connection = connection.savepoint()?;
    let answer = match (resource, &asked.method) {
        (Resource::Account, &Method::GET) => Answer::json(200, &account(service)),
        (Resource::Databases, _) => databases(&connection, asked)?,
        (Resource::Database(id), &Method::GET) => {
            Answer::json(200, &Database::find(&connection, id)?.to_json())
        }
        (Resource::Database(id), &Method::DELETE) => {
            Database::delete(&connection, id)?;
            Answer::empty(204)
        }
        (Resource::Containers(db), _) => containers(service, &connection, asked, db)?,
        (Resource::Container(db, id), _) => container(&connection, asked, (db, id))?,
        _ => return Err(not_allowed(asked)),
    };
    connection.commit()?;
    Ok(answer.charged(charge::METADATA))
}

fn databases(connection: &Connection, asked: &Asked) -> Result<Answer, ServiceError> {
    match asked.method {
        Method::GET => Ok(list("Databases", "", all_databases(connection)?)),
        Method::POST if route::is_query(&asked.headers) => {
            let found = listing::query(asked, all_databases(connection)?)?;
            Ok(list("Databases", "", found))
        }
        Method::POST => {
            let body: Value = serde_json::from_slice(&asked.body)?;
            let id = rules::name(&body)?;
            let throughput = offers::asked_for(&asked.headers)?;
            let database = Database::create(connection, id, now_secs())?;
            if let Some(content) = throughput {
                let resource = (&*database.self_link(), &*database.rid());
                Offer::create(
                    connection,
                    resource,
                    (&content, Origin::Creation),
                    now_secs(),
                )?;
            }
            Ok(Answer::json(201, &database.to_json()))
        }
        _ => Err(not_allowed(asked)),
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
    asked: &Asked,
    database: &str,
) -> Result<Answer, ServiceError> {
    match asked.method {
        Method::GET => {
            let rid = Database::find(connection, database)?.rid();
            let all = all_containers(connection, database)?;
            Ok(list("DocumentCollections", &rid, all))
        }
        Method::POST if route::is_query(&asked.headers) => {
            let rid = Database::find(connection, database)?.rid();
            let found = listing::query(asked, all_containers(connection, database)?)?;
            Ok(list("DocumentCollections", &rid, found))
        }
        Method::POST => {
            let definition = rules::definition(serde_json::from_slice(&asked.body)?, None)?;
            let ranges = service.settings.physical_partitions;
            let throughput = offers::asked_for(&asked.headers)?;
            let parent = Database::find(connection, database)?;
            let shared = Offer::of(connection, &parent.self_link())?.is_some();
            let created = Container::create(connection, database, &definition, ranges, now_secs())?;
            let by_default = || offers::default_content(service.settings.throughput);
            let offer = match throughput {
                Some(content) => Some((content, Origin::Creation)),
                None => (!shared).then(|| (by_default(), Origin::Default)),
            };
            if let Some((content, origin)) = offer {
                let resource = (&*created.self_link(), &*created.rid());
                Offer::create(connection, resource, (&content, origin), now_secs())?;
            }
            Ok(Answer::json(201, &created.to_json()).with("etag", created.etag))
        }
        _ => Err(not_allowed(asked)),
    }
}

fn container(
    connection: &Connection,
    asked: &Asked,
    (database, id): (&str, &str),
) -> Result<Answer, ServiceError> {
    let container = Container::find(connection, database, id)?;
    match asked.method {
        Method::GET => {
            let mut answer = Answer::json(200, &container.to_json());
            if flag(&asked.headers, "x-ms-documentdb-populatequotainfo") {
                let name = "x-ms-documentdb-collection-index-transformation-progress";
                answer = answer.with(name, container.index_progress(connection)?.to_string());
            }
            Ok(answer.with("etag", container.etag))
        }
        Method::PUT => {
            if header(&asked.headers, "if-match").is_some_and(|etag| etag != container.etag) {
                return Err(ServiceError::precondition_failed());
            }
            let definition = serde_json::from_slice(&asked.body)?;
            let definition = rules::definition(definition, Some(&container.definition))?;
            container.replace(connection, &definition)?;
            let replaced = Container::find(connection, database, id)?;
            Ok(Answer::json(200, &replaced.to_json()).with("etag", replaced.etag))
        }
        Method::DELETE => {
            container.delete(connection)?;
            Ok(Answer::empty(204))
        }
        _ => Err(not_allowed(asked)),
    }
}

fn account(service: &Service) -> Value {
    let location = json!([{
        "name": "Local", "databaseAccountEndpoint": service.settings.endpoint,
    }]);
    json!({
        "_self": "", "id": "emulator", "_rid": "emulator", "media": "//media/", "addresses": "//addresses/",
        "_dbs": "//dbs/", "writableLocations": location, "readableLocations": location,
        "enableMultipleWriteLocations": false,
        "userConsistencyPolicy": { "defaultConsistencyLevel": "Session" },
        "userReplicationPolicy": { "asyncReplication": false, "minReplicaSetSize": 1, "maxReplicasetSize": 4 },
        "systemReplicationPolicy": { "minReplicaSetSize": 1, "maxReplicasetSize": 4 },
        "readPolicy": { "primaryReadCoefficient": 1, "secondaryReadCoefficient": 1 },
        "queryEngineConfiguration": "{}",
    })
}
