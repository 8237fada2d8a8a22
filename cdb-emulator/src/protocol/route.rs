//! The resource and the kind of a request, from its path, method and headers.

use http::{HeaderMap, Method};
use percent_encoding::percent_decode_str;

use super::operation::OperationKind;
use super::rid;

/// The names of a container and of its database.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ContainerName {
    pub(crate) database: String,
    pub(crate) container: String,
}

impl ContainerName {
    pub(crate) fn new(database: &str, container: &str) -> Self {
        Self {
            database: database.to_owned(),
            container: container.to_owned(),
        }
    }

    /// Returns the link by names.
    pub(crate) fn link(&self) -> String {
        format!("dbs/{}/colls/{}", self.database, self.container)
    }
}

/// The resource that a path names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Resource {
    Account,
    Databases,
    Database(String),
    Containers(String),
    Container(ContainerName),
    Ranges(ContainerName),
    Items(ContainerName),
    Item(ContainerName, String),
    /// The stored procedures, triggers, functions or conflicts of a container.
    Scripts(ContainerName, Scripts),
    /// A stored procedure, a trigger or a function.
    Script(ContainerName, Scripts, String),
    /// All items of a partition key, to delete them.
    PartitionKeyDelete(ContainerName),
    Offers,
    Offer(String),
    /// A path that names no resource of the emulator, with the reason.
    Unknown(String),
}

impl Resource {
    /// Parses a path. Each segment is percent-decoded once, as on the service.
    pub(crate) fn parse(path: &str) -> Self {
        let mut segments = Vec::new();
        for segment in path
            .trim_matches('/')
            .split('/')
            .filter(|segment| !segment.is_empty())
        {
            let Ok(decoded) = percent_decode_str(segment).decode_utf8() else {
                let reason = "The path is not UTF-8 after percent-decoding.";
                return Self::Unknown(reason.to_owned());
            };
            segments.push(decoded);
        }
        let segments: Vec<&str> = segments.iter().map(AsRef::as_ref).collect();
        let own = |text: &str| text.to_owned();
        match *segments {
            [] => Self::Account,
            ["dbs"] => Self::Databases,
            ["dbs", db] => Self::Database(own(db)),
            ["dbs", db, "colls"] => Self::Containers(own(db)),
            ["dbs", db, "colls", coll, ref below @ ..] => {
                let resource = Self::below(ContainerName::new(db, coll), below);
                match resource {
                    Some(Self::Item(_, id)) if rid::database(db).is_some() => {
                        Self::Unknown(format!("Failed to parse the value '{id}' as ResourceId."))
                    }
                    resource => resource.unwrap_or_else(|| unknown(path)),
                }
            }
            ["offers"] => Self::Offers,
            ["offers", rid] => Self::Offer(own(rid)),
            _ => unknown(path),
        }
    }

    /// Returns a container or a resource below it; `None` if there is no such resource.
    fn below(container: ContainerName, segments: &[&str]) -> Option<Self> {
        Some(match *segments {
            [] => Self::Container(container),
            ["pkranges"] => Self::Ranges(container),
            ["docs"] => Self::Items(container),
            ["docs", id] => Self::Item(container, id.to_owned()),
            ["operations", "partitionkeydelete"] => Self::PartitionKeyDelete(container),
            [kind] => Self::Scripts(container, Scripts::named(kind)?),
            [kind, id] => {
                let kind = Scripts::named(kind).filter(|kind| *kind != Scripts::Conflicts)?;
                Self::Script(container, kind, id.to_owned())
            }
            _ => return None,
        })
    }

    /// Returns the name of the container; `None` for other resources.
    pub(crate) fn container(&self) -> Option<&ContainerName> {
        match self {
            Self::Container(name)
            | Self::Ranges(name)
            | Self::Items(name)
            | Self::Scripts(name, _)
            | Self::Script(name, ..)
            | Self::PartitionKeyDelete(name)
            | Self::Item(name, _) => Some(name),
            _ => None,
        }
    }

    /// Returns the resource type and link for the signature. The link of a list is its parent. A
    /// resource that is addressed by its resource id has that id in lower case as its link (Rust
    /// SDK, emulator_tests/cosmos_rid_addressing.rs).
    pub(crate) fn signed(&self) -> (&'static str, String) {
        let (kind, link) = self.signed_by_name();
        match link.strip_prefix("dbs/") {
            Some(ids) if self.is_by_rid() => {
                let id = ids.rsplit('/').next().unwrap_or(ids);
                (kind, id.to_ascii_lowercase())
            }
            _ => (kind, link),
        }
    }

    /// Returns whether a path addresses its resources by their resource ids, which the service
    /// judges by the database.
    fn is_by_rid(&self) -> bool {
        let database = match self {
            Self::Database(database) | Self::Containers(database) => Some(database),
            _ => self.container().map(|name| &name.database),
        };
        database.is_some_and(|database| rid::database(database).is_some())
    }

    fn signed_by_name(&self) -> (&'static str, String) {
        match self {
            Self::Account | Self::Unknown(_) => ("", String::new()),
            Self::Databases => ("dbs", String::new()),
            Self::Database(db) => ("dbs", format!("dbs/{db}")),
            Self::Containers(db) => ("colls", format!("dbs/{db}")),
            Self::Container(name) | Self::PartitionKeyDelete(name) => ("colls", name.link()),
            Self::Ranges(name) => ("pkranges", name.link()),
            Self::Items(name) => ("docs", name.link()),
            Self::Item(name, id) => ("docs", format!("{}/docs/{id}", name.link())),
            Self::Scripts(name, kind) => (kind.segment(), name.link()),
            Self::Script(name, kind, id) => {
                let kind = kind.segment();
                (kind, format!("{}/{kind}/{id}", name.link()))
            }
            Self::Offers => ("offers", String::new()),
            Self::Offer(rid) => ("offers", rid.to_ascii_lowercase()),
        }
    }
}

fn unknown(path: &str) -> Resource {
    Resource::Unknown(format!(
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
