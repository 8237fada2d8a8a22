//! Users of a database, and their permissions with resource tokens.

use std::time::Duration;

use http::Method;
use serde_json::{Map, Value, json};

use super::listing;
use crate::error::ServiceError;
use crate::request::Request;
use crate::resource_token::Grant;
use crate::response::Response;
use crate::route::{self, Resource, flag, header};
use crate::rules;
use crate::service::Service;
use crate::store::rid;
use crate::store::{Connection, Container, Database, NamedResource};

/// The valid lifetimes of a resource token in seconds, and the default (concepts-limits).
const LIFETIMES: std::ops::RangeInclusive<u64> = 600..=86_400;
const DEFAULT_LIFETIME: u64 = 3600;

/// The users of a database, or the permissions of a user.
struct Collection {
    database: Database,
    /// The path of the resources.
    path: String,
    /// The user of the permissions; `None` for the users.
    user: Option<NamedResource>,
}

/// Executes a request for users or permissions.
pub(super) fn dispatch(
    service: &Service,
    connection: &Connection,
    request: &Request,
) -> Result<Response, ServiceError> {
    match &request.resource {
        Resource::Users(db) => all(
            service,
            request,
            connection,
            &Collection::users(connection, db)?,
        ),
        Resource::User(db, id) => one(
            service,
            request,
            connection,
            &Collection::users(connection, db)?,
            id,
        ),
        Resource::Permissions(db, user) => {
            let permissions = Collection::permissions(connection, db, user)?;
            all(service, request, connection, &permissions)
        }
        Resource::Permission(db, user, id) => {
            let permissions = Collection::permissions(connection, db, user)?;
            one(service, request, connection, &permissions, id)
        }
        _ => Err(ServiceError::not_found()),
    }
}

impl Collection {
    fn users(connection: &Connection, db: &str) -> Result<Self, ServiceError> {
        Ok(Self {
            database: Database::find(connection, db)?,
            path: format!("dbs/{db}/users"),
            user: None,
        })
    }

    fn permissions(connection: &Connection, db: &str, user: &str) -> Result<Self, ServiceError> {
        let users = Self::users(connection, db)?;
        let user = NamedResource::find(connection, &users.path, user)?;
        Ok(Self {
            path: format!("{}/{}/permissions", users.path, user.id),
            user: Some(user),
            ..users
        })
    }

    fn list(&self) -> &'static str {
        if self.user.is_some() {
            "Permissions"
        } else {
            "Users"
        }
    }

    /// Checks a definition. Returns the properties that are stored.
    fn check(&self, connection: &Connection, body: &Value) -> Result<Value, ServiceError> {
        let id = rules::name(body)?;
        if self.user.is_none() {
            return Ok(json!({ "id": id }));
        }
        let mode = body["permissionMode"].as_str().unwrap_or_default();
        let mode = ["Read", "All"]
            .into_iter()
            .find(|known| known.eq_ignore_ascii_case(mode));
        let mode = mode.ok_or_else(|| {
            ServiceError::bad_request("The permissionMode has to be 'Read' or 'All'.")
        })?;
        let link = body["resource"].as_str().unwrap_or_default();
        let resource = named_link(connection, &self.database, link)?;
        let mut definition = json!({ "id": id, "permissionMode": mode, "resource": resource });
        if let Some(key) = body
            .get("resourcePartitionKey")
            .filter(|key| !key.is_null())
        {
            definition["resourcePartitionKey"] = key.clone();
        }
        Ok(definition)
    }

    /// Returns a resource with its system properties; permissions with a new resource token.
    fn to_json(
        &self,
        service: &Service,
        request: &Request,
        found: &NamedResource,
    ) -> Result<Value, ServiceError> {
        let mut body = found.definition.clone();
        let (database, number) = (self.database.number(), found.number);
        match &self.user {
            None => {
                body["_rid"] = rid::of_user(database, number).into();
                body["_permissions"] = "permissions/".into();
            }
            Some(user) => {
                body["_rid"] = rid::of_permission(database, user.number, number).into();
                body["_token"] = token(service, request, &found.definition)?.into();
            }
        }
        body["_self"] = format!("{}/{}/", self.path, found.id).into();
        body["_etag"] = found.etag.clone().into();
        body["_ts"] = found.ts.into();
        Ok(body)
    }
}

/// Returns the resource token of a permission.
fn token(service: &Service, request: &Request, permission: &Value) -> Result<String, ServiceError> {
    let seconds = match header(&request.headers, "x-ms-documentdb-expiry-seconds") {
        None => DEFAULT_LIFETIME,
        Some(text) => text.parse().unwrap_or_default(),
    };
    if !LIFETIMES.contains(&seconds) {
        return Err(ServiceError::bad_request(format!(
            "The expiry of a resource token has to be {} to {} seconds.",
            LIFETIMES.start(),
            LIFETIMES.end()
        )));
    }
    let grant = Grant::new(
        permission,
        service.clock.now() + Duration::from_secs(seconds),
    );
    grant.token(&service.account.key)
}

/// Returns the link of a resource by names. Clients also send links of resource ids (`_self`).
fn named_link(
    connection: &Connection,
    database: &Database,
    link: &str,
) -> Result<String, ServiceError> {
    let link = link.trim_matches('/');
    let containers = Container::all(connection, &database.id)?;
    for container in containers {
        let id = container.definition["id"].as_str().unwrap_or_default();
        let named = format!("dbs/{}/colls/{id}", database.id);
        let by_rid = container.self_link();
        let mut starts = [&*named, by_rid.trim_matches('/')].into_iter();
        let rest = starts.find_map(|start| link.strip_prefix(start));
        if let Some(rest) = rest.filter(|rest| rest.is_empty() || rest.starts_with("/docs/")) {
            return Ok(format!("{named}{rest}"));
        }
    }
    Err(ServiceError::bad_request(format!(
        "The resource '{link}' of the permission is not a container or an item of the database."
    )))
}

fn all(
    service: &Service,
    request: &Request,
    connection: &Connection,
    collection: &Collection,
) -> Result<Response, ServiceError> {
    let is_query = route::is_query(&request.headers);
    if request.method == Method::POST && !is_query {
        return create(service, request, connection, collection);
    }
    let found = NamedResource::all(connection, &collection.path)?;
    let found = found
        .iter()
        .map(|each| collection.to_json(service, request, each));
    let mut found = found.collect::<Result<Vec<Value>, ServiceError>>()?;
    if is_query {
        found = listing::query(service, request, found)?;
    } else if request.method != Method::GET {
        return Err(ServiceError::method_not_allowed(
            &request.method,
            "GET or POST",
        ));
    }
    Ok(Response::list(
        collection.list(),
        &collection.database.rid(),
        found,
    ))
}

fn create(
    service: &Service,
    request: &Request,
    connection: &Connection,
    collection: &Collection,
) -> Result<Response, ServiceError> {
    let body = Value::Object(serde_json::from_slice::<Map<String, Value>>(&request.body)?);
    let definition = collection.check(connection, &body)?;
    let id = rules::name(&definition)?;
    let existing = NamedResource::find(connection, &collection.path, id).ok();
    let existing = existing.filter(|_| flag(&request.headers, "x-ms-documentdb-is-upsert"));
    let now = service.clock.now_secs();
    let (status, found) = match existing {
        Some(existing) => (
            200,
            existing.replace(connection, &collection.path, &definition, now)?,
        ),
        None => (
            201,
            NamedResource::create(connection, &collection.path, &definition, now)?,
        ),
    };
    Ok(Response::json(
        status,
        &collection.to_json(service, request, &found)?,
    ))
}

fn one(
    service: &Service,
    request: &Request,
    connection: &Connection,
    collection: &Collection,
    id: &str,
) -> Result<Response, ServiceError> {
    let found = NamedResource::find(connection, &collection.path, id)?;
    let found = match request.method {
        Method::GET => found,
        Method::PUT => {
            let body = serde_json::from_slice(&request.body)?;
            let definition = collection.check(connection, &body)?;
            let now = service.clock.now_secs();
            found.replace(connection, &collection.path, &definition, now)?
        }
        Method::DELETE => {
            found.delete(connection, &collection.path)?;
            return Ok(Response::empty(204));
        }
        _ => {
            let allowed = "GET, PUT or DELETE";
            return Err(ServiceError::method_not_allowed(&request.method, allowed));
        }
    };
    Ok(Response::json(
        200,
        &collection.to_json(service, request, &found)?,
    ))
}
