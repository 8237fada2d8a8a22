//! Stored procedures, triggers and user-defined functions as resources of a container.
//!
//! They can be read, listed and deleted without the feature `scripts`, and not created.

use http::Method;
use serde_json::{Map, Value, json};

use super::listing;
use crate::error::ServiceError;
use crate::request::Request;
use crate::response::Response;
use crate::route::{self, Resource, Scripts, flag, header};
use crate::rules;
use crate::script;
use crate::service::Service;
use crate::store::rid::Inside;
use crate::store::{Connection, Container, NamedResource};

/// The scripts of one kind in a container.
struct Collection<'a> {
    service: &'a Service,
    container: Container,
    kind: Scripts,
    /// The parent path of the stored resources.
    path: String,
}

/// Executes a request for scripts as resources.
pub(super) fn dispatch(
    service: &Service,
    connection: &Connection,
    request: &Request,
    resource: &Resource,
) -> Result<Response, ServiceError> {
    let (Resource::Scripts(db, coll, kind) | Resource::Script(db, coll, kind, _)) = resource else {
        return Err(ServiceError::not_found());
    };
    let container = Container::find(connection, db, coll)?;
    let path = container.scripts(kind.segment());
    let collection = Collection {
        service,
        container,
        kind: *kind,
        path,
    };
    match resource {
        Resource::Script(.., id) => collection.one(connection, request, id),
        _ => collection.all(connection, request),
    }
}

impl Collection<'_> {
    fn all(&self, connection: &Connection, request: &Request) -> Result<Response, ServiceError> {
        let is_query = route::is_query(&request.headers);
        if request.method == Method::POST && !is_query && self.kind != Scripts::Conflicts {
            return self.create(connection, request);
        }
        let found = NamedResource::all(connection, &self.path)?;
        let mut found: Vec<Value> = found.iter().map(|each| self.to_json(each)).collect();
        if is_query {
            found = listing::query(self.service, request, found)?;
        } else if request.method != Method::GET {
            let allowed = "GET or POST";
            return Err(ServiceError::method_not_allowed(&request.method, allowed));
        }
        let rid = self.container.rid();
        Ok(Response::list(self.kind.list(), &rid, found))
    }

    fn create(&self, connection: &Connection, request: &Request) -> Result<Response, ServiceError> {
        let definition = self.definition(request)?;
        let id = rules::name(&definition)?;
        let existing = NamedResource::find(connection, &self.path, id).ok();
        let existing = existing.filter(|_| flag(&request.headers, "x-ms-documentdb-is-upsert"));
        let (new, now) = ((id, &definition), self.service.clock.now_secs());
        let (status, stored) = match existing {
            Some(existing) => (200, existing.replace(connection, &self.path, new, now)?),
            None => (
                201,
                NamedResource::create(connection, &self.path, new, now)?,
            ),
        };
        Ok(self.response(status, &stored))
    }

    fn one(
        &self,
        connection: &Connection,
        request: &Request,
        id: &str,
    ) -> Result<Response, ServiceError> {
        let found = NamedResource::find(connection, &self.path, id)?;
        if request.method != Method::GET
            && header(&request.headers, "if-match").is_some_and(|etag| etag != found.etag)
        {
            return Err(ServiceError::precondition_failed());
        }
        match request.method {
            Method::GET => Ok(self.response(200, &found)),
            Method::PUT => {
                let definition = self.definition(request)?;
                let new = (rules::name(&definition)?, &definition);
                let now = self.service.clock.now_secs();
                let stored = found.replace(connection, &self.path, new, now)?;
                Ok(self.response(200, &stored))
            }
            Method::DELETE => {
                found.delete(connection, &self.path)?;
                Ok(Response::empty(204))
            }
            _ => {
                let allowed = "GET, PUT or DELETE";
                Err(ServiceError::method_not_allowed(&request.method, allowed))
            }
        }
    }

    /// Checks the definition in a request. Returns the properties that are stored.
    fn definition(&self, request: &Request) -> Result<Value, ServiceError> {
        script::require()?;
        rules::size(request.body.len())?;
        let body = Value::Object(serde_json::from_slice::<Map<String, Value>>(&request.body)?);
        let id = rules::name(&body)?;
        let text = body["body"].as_str().filter(|text| !text.trim().is_empty());
        let text = text.ok_or_else(|| {
            ServiceError::bad_request(
                "The input content is invalid because the required properties - 'body; ' - are missing",
            )
        })?;
        let mut definition = json!({ "id": id, "body": text });
        if self.kind == Scripts::Triggers {
            let operations = ["All", "Create", "Update", "Delete", "Replace", "Upsert"];
            definition["triggerType"] = one_of(&body, "triggerType", &["Pre", "Post"])?.into();
            definition["triggerOperation"] = one_of(&body, "triggerOperation", &operations)?.into();
        }
        Ok(definition)
    }

    fn response(&self, status: u16, stored: &NamedResource) -> Response {
        Response::json(status, &self.to_json(stored)).with("etag", stored.etag.clone())
    }

    /// Returns a script with its system properties.
    fn to_json(&self, stored: &NamedResource) -> Value {
        let number = stored.number.unsigned_abs();
        let rid = self.container.rid_inside(match self.kind {
            Scripts::Triggers => Inside::Trigger(number),
            Scripts::Functions => Inside::Function(number),
            Scripts::Procedures | Scripts::Conflicts => Inside::Procedure(number),
        });
        let link = self.container.self_link();
        let mut body = stored.definition.clone();
        body["_self"] = format!("{link}{}/{rid}/", self.kind.segment()).into();
        body["_rid"] = rid.into();
        body["_etag"] = stored.etag.clone().into();
        body["_ts"] = stored.ts.into();
        body
    }
}

/// Returns the value of a property that has to be one of these names in any case.
fn one_of<'a>(body: &Value, property: &str, names: &[&'a str]) -> Result<&'a str, ServiceError> {
    let given = body[property].as_str().unwrap_or_default();
    let known = names.iter().find(|name| name.eq_ignore_ascii_case(given));
    known.copied().ok_or_else(|| {
        ServiceError::bad_request(format!(
            "The {property} has to be one of {}.",
            names.join(", ")
        ))
    })
}
