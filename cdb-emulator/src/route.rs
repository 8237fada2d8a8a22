//! The resource and the kind of a request, from its path, method and headers.

use http::{HeaderMap, Method};
use percent_encoding::percent_decode_str;

use crate::error::ServiceError;
use crate::observe::OperationKind;

/// The resource that a path names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Resource {
    Account,
    Databases,
    Database(String),
    Containers(String),
    Container(String, String),
    Ranges(String, String),
    Items(String, String),
    Item(String, String, String),
    /// The stored procedures, triggers, functions or conflicts of a container.
    Scripts(String, String, Scripts),
    /// A stored procedure, a trigger or a function.
    Script(String, String, Scripts, String),
    /// All items of a partition key, to delete them.
    PartitionKeyDelete(String, String),
    Users(String),
    User(String, String),
    Permissions(String, String),
    Permission(String, String, String),
    Offers,
    Offer(String),
}

impl Resource {
    /// Parses a path. Each segment is percent-decoded once, as on the service.
    pub(crate) fn parse(path: &str) -> Result<Self, ServiceError> {
        let mut segments = Vec::new();
        for segment in path
            .trim_matches('/')
            .split('/')
            .filter(|segment| !segment.is_empty())
        {
            let decoded = percent_decode_str(segment).decode_utf8().map_err(|_| {
                ServiceError::bad_request("The path is not UTF-8 after percent-decoding.")
            })?;
            segments.push(decoded.into_owned());
        }
        let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
        let own = |text: &str| text.to_owned();
        Ok(match *segments {
            [] => Self::Account,
            ["dbs"] => Self::Databases,
            ["dbs", db] => Self::Database(own(db)),
            ["dbs", db, "users"] => Self::Users(own(db)),
            ["dbs", db, "users", user] => Self::User(own(db), own(user)),
            ["dbs", db, "users", user, "permissions"] => Self::Permissions(own(db), own(user)),
            ["dbs", db, "users", user, "permissions", id] => {
                Self::Permission(own(db), own(user), own(id))
            }
            ["dbs", db, "colls", coll, "operations", "partitionkeydelete"] => {
                Self::PartitionKeyDelete(own(db), own(coll))
            }
            ["dbs", db, "colls"] => Self::Containers(own(db)),
            ["dbs", db, "colls", coll] => Self::Container(own(db), own(coll)),
            ["dbs", db, "colls", coll, "pkranges"] => Self::Ranges(own(db), own(coll)),
            ["dbs", db, "colls", coll, "docs"] => Self::Items(own(db), own(coll)),
            ["dbs", db, "colls", coll, "docs", id] => Self::Item(own(db), own(coll), own(id)),
            ["offers"] => Self::Offers,
            ["offers", rid] => Self::Offer(own(rid)),
            ["dbs", db, "colls", coll, kind] => match Scripts::named(kind) {
                Some(kind) => Self::Scripts(own(db), own(coll), kind),
                None => return Err(unknown(path)),
            },
            ["dbs", db, "colls", coll, kind, id] => match Scripts::named(kind) {
                Some(kind) if kind != Scripts::Conflicts => {
                    Self::Script(own(db), own(coll), kind, own(id))
                }
                _ => return Err(unknown(path)),
            },
            _ => return Err(unknown(path)),
        })
    }

    /// Returns the names of the database and the container; `None` for other resources.
    pub(crate) fn container(&self) -> Option<(&str, &str)> {
        match self {
            Self::Container(db, coll)
            | Self::Ranges(db, coll)
            | Self::Items(db, coll)
            | Self::Scripts(db, coll, _)
            | Self::Script(db, coll, ..)
            | Self::PartitionKeyDelete(db, coll)
            | Self::Item(db, coll, _) => Some((db, coll)),
            _ => None,
        }
    }

    /// Returns the resource type and link for the signature. The link of a list is its parent.
    pub(crate) fn signed(&self) -> (&'static str, String) {
        match self {
            Self::Account => ("", String::new()),
            Self::Databases => ("dbs", String::new()),
            Self::Database(db) => ("dbs", format!("dbs/{db}")),
            Self::Containers(db) => ("colls", format!("dbs/{db}")),
            Self::Container(db, coll) | Self::PartitionKeyDelete(db, coll) => {
                ("colls", format!("dbs/{db}/colls/{coll}"))
            }
            Self::Ranges(db, coll) => ("pkranges", format!("dbs/{db}/colls/{coll}")),
            Self::Items(db, coll) => ("docs", format!("dbs/{db}/colls/{coll}")),
            Self::Item(db, coll, id) => ("docs", format!("dbs/{db}/colls/{coll}/docs/{id}")),
            Self::Scripts(db, coll, kind) => (kind.segment(), format!("dbs/{db}/colls/{coll}")),
            Self::Script(db, coll, kind, id) => {
                let kind = kind.segment();
                (kind, format!("dbs/{db}/colls/{coll}/{kind}/{id}"))
            }
            Self::Users(db) => ("users", format!("dbs/{db}")),
            Self::User(db, id) => ("users", format!("dbs/{db}/users/{id}")),
            Self::Permissions(db, user) => ("permissions", format!("dbs/{db}/users/{user}")),
            Self::Permission(db, user, id) => (
                "permissions",
                format!("dbs/{db}/users/{user}/permissions/{id}"),
            ),
            Self::Offers => ("offers", String::new()),
            Self::Offer(rid) => ("offers", rid.to_ascii_lowercase()),
        }
    }
}

fn unknown(path: &str) -> ServiceError {
    ServiceError::bad_request(format!(
        "The path '{path}' does not name a resource that this emulator supports."
    ))
}

/// The kinds of scripts of a container, and its conflicts. The emulator has none of them; clients
/// read their lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scripts {
    Procedures,
    Triggers,
    Functions,
    Conflicts,
}

impl Scripts {
    fn named(segment: &str) -> Option<Self> {
        let all = [
            Self::Procedures,
            Self::Triggers,
            Self::Functions,
            Self::Conflicts,
        ];
        all.into_iter().find(|kind| kind.segment() == segment)
    }

    /// Returns the segment of a path, which is also the resource type.
    pub(crate) fn segment(self) -> &'static str {
        match self {
            Self::Procedures => "sprocs",
            Self::Triggers => "triggers",
            Self::Functions => "udfs",
            Self::Conflicts => "conflicts",
        }
    }

    /// Returns the name of the list in a response.
    pub(crate) fn list(self) -> &'static str {
        match self {
            Self::Procedures => "StoredProcedures",
            Self::Triggers => "Triggers",
            Self::Functions => "UserDefinedFunctions",
            Self::Conflicts => "Conflicts",
        }
    }
}

/// Returns the text of a header.
pub(crate) fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// Returns whether a header is `true`.
pub(crate) fn flag(headers: &HeaderMap, name: &str) -> bool {
    header(headers, name).is_some_and(|value| value.eq_ignore_ascii_case("true"))
}

/// Returns whether a request asks for the plan of a query.
pub(crate) fn is_plan_request(headers: &HeaderMap) -> bool {
    flag(headers, "x-ms-cosmos-is-query-plan-request")
}

/// Returns whether a body is a query and not a resource.
pub(crate) fn is_query(headers: &HeaderMap) -> bool {
    flag(headers, "x-ms-documentdb-isquery")
        || header(headers, "content-type")
            .is_some_and(|value| value.starts_with("application/query+json"))
}

/// Returns whether a request of this kind is a write, which only the write region accepts.
pub(crate) fn is_write(method: &Method, kind: OperationKind, headers: &HeaderMap) -> bool {
    match kind {
        OperationKind::Read | OperationKind::Query | OperationKind::Feed => false,
        OperationKind::Metadata => {
            let reads = *method == Method::POST && (is_query(headers) || is_plan_request(headers));
            *method != Method::GET && !reads
        }
        _ => true,
    }
}

/// Returns the kind of operation of a request.
pub(crate) fn kind(method: &Method, resource: &Resource, headers: &HeaderMap) -> OperationKind {
    match (resource, method) {
        (Resource::Items(..), &Method::POST) if is_plan_request(headers) => OperationKind::Metadata,
        (Resource::Items(..), &Method::POST) => {
            let batch = flag(headers, "x-ms-cosmos-is-batch-request");
            let bulk = header(headers, "x-ms-cosmos-batch-atomic")
                .is_some_and(|value| value.eq_ignore_ascii_case("false"));
            match (batch, bulk, is_query(headers)) {
                (true, true, _) => OperationKind::Bulk,
                (true, false, _) => OperationKind::Batch,
                (_, _, true) => OperationKind::Query,
                _ if flag(headers, "x-ms-documentdb-is-upsert") => OperationKind::Upsert,
                _ => OperationKind::Create,
            }
        }
        (Resource::Items(..), _) => OperationKind::Feed,
        (Resource::Item(..), &Method::PUT) => OperationKind::Replace,
        (Resource::Item(..), &Method::PATCH) => OperationKind::Patch,
        (Resource::Item(..), &Method::DELETE) => OperationKind::Delete,
        (Resource::Item(..), _) => OperationKind::Read,
        _ => OperationKind::Metadata,
    }
}
