//! Operations before the ETags of either emulator are filled in.

use std::fmt;

use http::Method;
use serde_json::{Value, json};

use crate::exchange::{Request, Resource};
use crate::queries::Sql;

/// A partition key's values, one for each level; `{}` stands for a missing one.
pub(crate) type Key = Vec<Value>;

/// A document's name: its partition key and its id.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Place {
    pub(crate) key: Key,
    pub(crate) id: String,
}

/// The ETag of a condition. Each emulator gets its own ETag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tag {
    /// `*`.
    Any,
    /// The ETag of the last write.
    Current,
    /// The ETag of the write before the last.
    Former,
    /// An ETag that no document ever had.
    Foreign,
}

/// `If-Match` and `If-None-Match`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Condition {
    pub(crate) if_match: Option<Tag>,
    pub(crate) if_none_match: Option<Tag>,
}

/// The kind of a whole-document write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Write {
    Create,
    Upsert,
    Replace,
}

/// One step of a batch.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) kind: &'static str,
    pub(crate) id: String,
    pub(crate) body: Option<Value>,
    pub(crate) condition: Condition,
}

/// A query, and the guaranteed part of its order.
#[derive(Clone, Debug)]
pub(crate) struct Query {
    pub(crate) text: Sql,
    pub(crate) parameters: Vec<(&'static str, Value)>,
    /// One partition, or all of them through the gateway.
    pub(crate) key: Option<Key>,
    /// The property of a row that the rows are sorted by.
    pub(crate) sorted_by: Option<&'static str>,
    /// Whether the answer may contain only some of the rows with equal sort keys.
    pub(crate) cut: bool,
    pub(crate) page: Option<usize>,
}

/// One operation.
#[derive(Clone, Debug)]
pub(crate) enum Operation {
    /// Header and path give the address; the document may contradict them.
    Write(Write, Place, Value, Condition),
    Read(Place, Condition),
    Delete(Place, Condition),
    Patch(Place, Value, Condition),
    Batch(Key, Vec<Step>),
    Query(Query),
    Feed(Option<Key>, Option<usize>),
}

/// The emulator of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Ours,
    Theirs,
}

/// Turns a tag into an ETag of one emulator.
pub(crate) type Etags<'a> = &'a dyn Fn(&Place, Tag) -> String;

impl Operation {
    /// The request for one emulator.
    pub(crate) fn request(&self, side: Side, container: &str, etags: Etags<'_>) -> Request {
        let documents = || Resource::Documents(container.to_owned());
        let document = |place: &Place| Resource::Document(container.to_owned(), place.id.clone());
        match self {
            Self::Write(write, place, body, condition) => {
                let request = match write {
                    Write::Create => Request::new(Method::POST, documents()),
                    Write::Upsert => Request::new(Method::POST, documents())
                        .with("x-ms-documentdb-is-upsert", "True"),
                    Write::Replace => Request::new(Method::PUT, document(place)),
                };
                conditional(request.json(body.clone()), place, *condition, etags)
            }
            Self::Read(place, condition) => {
                let request = Request::new(Method::GET, document(place));
                conditional(request, place, *condition, etags)
            }
            Self::Delete(place, condition) => {
                let request = Request::new(Method::DELETE, document(place));
                conditional(request, place, *condition, etags)
            }
            Self::Patch(place, patch, condition) => {
                let request = Request::new(Method::PATCH, document(place)).json(patch.clone());
                let request = request.with("content-type", "application/json_patch+json");
                conditional(request, place, *condition, etags)
            }
            Self::Batch(key, steps) => {
                let steps = steps.iter().map(|step| step.to_json(key, etags)).collect();
                keyed(Request::new(Method::POST, documents()), key)
                    .with("x-ms-cosmos-is-batch-request", "True")
                    .with("x-ms-cosmos-batch-atomic", "True")
                    .with("x-ms-cosmos-batch-continue-on-error", "False")
                    .json(Value::Array(steps))
            }
            Self::Query(query) => query.request(Request::new(Method::POST, documents()), side),
            Self::Feed(key, page) => {
                let request = Request::new(Method::GET, documents());
                let request = match key {
                    Some(key) => keyed(request, key),
                    None => request,
                };
                paged(request, *page)
            }
        }
    }

    /// The documents that the operation may change.
    pub(crate) fn touches(&self) -> Vec<Place> {
        match self {
            Self::Write(_, place, body, _) => {
                let id = body["id"].as_str().unwrap_or_default().to_owned();
                let key = place.key.clone();
                vec![place.clone(), Place { key, id }]
            }
            Self::Delete(place, _) | Self::Patch(place, ..) => vec![place.clone()],
            Self::Batch(key, steps) => steps
                .iter()
                .filter(|step| step.kind != "Read")
                .map(|step| Place {
                    key: key.clone(),
                    id: step.id.clone(),
                })
                .collect(),
            Self::Read(..) | Self::Query(_) | Self::Feed(..) => Vec::new(),
        }
    }
}

impl fmt::Display for Operation {
    /// Describes the operation in one line, enough to repeat it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = |key: &Key| Value::Array(key.clone());
        match self {
            Self::Write(write, place, body, condition) => {
                write!(f, "{write:?} {place} {condition} {body}")
            }
            Self::Read(place, condition) => write!(f, "Read {place} {condition}"),
            Self::Delete(place, condition) => write!(f, "Delete {place} {condition}"),
            Self::Patch(place, patch, condition) => write!(f, "Patch {place} {condition} {patch}"),
            Self::Batch(of, steps) => {
                write!(f, "Batch {}", key(of))?;
                for Step {
                    kind,
                    id,
                    body,
                    condition,
                } in steps
                {
                    let body = body.as_ref().unwrap_or(&Value::Null);
                    write!(f, "\n        {kind} '{id}' {condition} {body}")?;
                }
                Ok(())
            }
            Self::Query(query) => {
                let of = query.key.as_ref().map_or(Value::Null, key);
                let parameters = &query.parameters;
                write!(
                    f,
                    "Query {of} {} {parameters:?} {:?}",
                    query.text.ours, query.page
                )
            }
            Self::Feed(of, page) => {
                write!(f, "Feed {} {page:?}", of.as_ref().map_or(Value::Null, key))
            }
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} '{}'", Value::Array(self.key.clone()), self.id)
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(tag) = self.if_match {
            write!(f, "if-match {tag:?} ")?;
        }
        if let Some(tag) = self.if_none_match {
            write!(f, "if-none-match {tag:?} ")?;
        }
        Ok(())
    }
}

impl Step {
    fn to_json(&self, key: &Key, etags: Etags<'_>) -> Value {
        let place = Place {
            key: key.clone(),
            id: self.id.clone(),
        };
        let mut json = json!({ "operationType": self.kind });
        if !matches!(self.kind, "Create" | "Upsert") {
            json["id"] = self.id.clone().into();
        }
        if let Some(body) = &self.body {
            json["resourceBody"] = body.clone();
        }
        if let Some(tag) = self.condition.if_match {
            json["ifMatch"] = etags(&place, tag).into();
        }
        if let Some(tag) = self.condition.if_none_match {
            json["ifNoneMatch"] = etags(&place, tag).into();
        }
        json
    }
}

impl Query {
    fn request(&self, request: Request, side: Side) -> Request {
        let request = match &self.key {
            Some(key) => keyed(request, key),
            None => request.with("x-ms-documentdb-query-enablecrosspartition", "True"),
        };
        let parameters: Vec<Value> = self
            .parameters
            .iter()
            .map(|(name, value)| json!({ "name": name, "value": value }))
            .collect();
        let text = match side {
            Side::Ours => &self.text.ours,
            Side::Theirs => &self.text.theirs,
        };
        paged(request, self.page)
            .with("x-ms-documentdb-isquery", "True")
            .with("content-type", "application/query+json")
            .json(json!({ "query": text, "parameters": parameters }))
    }
}

fn keyed(request: Request, key: &Key) -> Request {
    let text = Value::Array(key.clone()).to_string();
    // Header text is ASCII; the service reads JSON escapes.
    let escaped = text.chars().map(|c| match c {
        ' '..='~' => c.to_string(),
        c => format!("\\u{:04x}", u32::from(c)),
    });
    request.with("x-ms-documentdb-partitionkey", escaped.collect::<String>())
}

fn paged(request: Request, page: Option<usize>) -> Request {
    match page {
        Some(rows) => request.with("x-ms-max-item-count", rows.to_string()),
        None => request,
    }
}

fn conditional(request: Request, place: &Place, condition: Condition, etags: Etags<'_>) -> Request {
    let mut request = keyed(request, &place.key);
    if let Some(tag) = condition.if_match {
        request = request.with("if-match", etags(place, tag));
    }
    if let Some(tag) = condition.if_none_match {
        request = request.with("if-none-match", etags(place, tag));
    }
    request
}
