//! Triggers of operations on documents, in the transaction of the operation.

use serde_json::{Map, Value};

use super::script_host::ScriptHost;
use super::write::{Operation, OperationContext, Outcome};
use crate::charge;
use crate::error::ServiceError;
use crate::request::Request;
use crate::route::{Scripts, header};
use crate::script::{self, Messages, Setup, Source};
use crate::service::Service;
use crate::store::{Connection, Container, NamedResource};

/// The triggers that a request names.
#[derive(Debug)]
pub(super) struct Triggers {
    pre: Option<NamedResource>,
    post: Option<NamedResource>,
    operation: &'static str,
    alt_link: String,
}

impl Triggers {
    /// Finds the triggers of a request. Fails if one does not exist or is for other operations.
    pub(super) fn of(
        request: &Request,
        (connection, container): (&Connection, &Container),
        operation: &Operation,
        (db, coll): (&str, &str),
    ) -> Result<Self, ServiceError> {
        let operation = match operation {
            Operation::Create(..) => "Create",
            Operation::Upsert(..) => "Upsert",
            Operation::Replace(..) => "Replace",
            Operation::Delete(..) => "Delete",
            Operation::Patch(..) => "Patch",
            Operation::Read(..) => "Read",
        };
        let find = |kind: &str| -> Result<Option<NamedResource>, ServiceError> {
            let name = format!("x-ms-documentdb-{}-trigger-include", kind.to_lowercase());
            match header(&request.headers, &name).map(str::trim) {
                None | Some("") => Ok(None),
                Some(id) => find((connection, container), id, (kind, operation)).map(Some),
            }
        };
        Ok(Self {
            pre: find("Pre")?,
            post: find("Post")?,
            operation,
            alt_link: format!("dbs/{db}/colls/{coll}"),
        })
    }

    /// Runs the triggers and the operation. Returns the outcome of the operation, with the charge of
    /// all of them.
    pub(super) fn apply(
        &self,
        service: &Service,
        context: &mut OperationContext<'_>,
        mut operation: Operation,
    ) -> Result<Outcome, ServiceError> {
        let mut charge = 0.0;
        let mut request = Value::Null;
        if self.pre.is_some() || self.post.is_some() {
            request = body_of(&operation, context)?;
        }
        if let Some(pre) = &self.pre {
            let messages = self.run(pre, (service, context), (&request, None), &mut charge)?;
            request = messages.request.unwrap_or_default();
            replace_body(&mut operation, &request)?;
        }
        let mut outcome = context.apply(operation)?;
        context.advance()?;
        if let Some(post) = &self.post {
            let response: Value = match &outcome.body {
                Some(body) => serde_json::from_str(body)?,
                None => Value::Null,
            };
            let messages = (&request, Some(&response));
            let messages = self.run(post, (service, context), messages, &mut charge)?;
            outcome.body = messages.response.map(|body| body.to_string());
        }
        outcome.charge += charge;
        Ok(outcome)
    }

    fn run(
        &self,
        trigger: &NamedResource,
        (service, context): (&Service, &mut OperationContext<'_>),
        (request, response): (&Value, Option<&Value>),
        charge: &mut f64,
    ) -> Result<Messages, ServiceError> {
        let setup = Setup {
            self_link: context.container.self_link(),
            alt_link: self.alt_link.clone(),
            request,
            changes_request: response.is_none(),
            operation: Some(self.operation),
            response,
            logs: false,
        };
        let mut host = ScriptHost::new(service, context);
        let ended = script::run(Source::of(trigger), &setup, &[], &mut host);
        *charge += host.charge + charge::SCRIPT;
        ended.result
    }
}

/// Finds a trigger by its id.
fn find(
    (connection, container): (&Connection, &Container),
    id: &str,
    (kind, operation): (&str, &str),
) -> Result<NamedResource, ServiceError> {
    script::require()?;
    if id.contains(',') {
        return Err(ServiceError::bad_request(format!(
            "Currently only one {kind}Trigger is permitted per operation."
        )));
    }
    let parent = container.scripts(Scripts::Triggers.segment());
    let trigger = NamedResource::find(connection, &parent, id).map_err(|error| {
        let missing = format!("The trigger '{id}' does not exist in the container.");
        if error.status == 404 {
            ServiceError::bad_request(missing)
        } else {
            error
        }
    })?;
    let of = |property: &str| trigger.definition[property].as_str().unwrap_or_default();
    if of("triggerType") != kind {
        return Err(ServiceError::bad_request(format!(
            "Trigger '{id}' was defined with type '{}', and therefore is invalid as '{kind}'.",
            of("triggerType")
        )));
    }
    let defined = of("triggerOperation");
    let is_update = defined == "Update" && operation == "Replace";
    if defined != "All" && defined != operation && !is_update {
        // The text of the service: azure-cosmos-dotnet-v3#4104.
        return Err(ServiceError::bad_request(format!(
            "Trigger '{id}' was defined with operation type '{defined}', and therefore is invalid for '{operation}'."
        )));
    }
    Ok(trigger)
}

/// Returns the body that triggers see: the document of a write, and the stored one of a delete.
fn body_of(operation: &Operation, context: &OperationContext<'_>) -> Result<Value, ServiceError> {
    match operation {
        Operation::Create(document)
        | Operation::Upsert(document, _)
        | Operation::Replace(_, document, _) => Ok(Value::Object(document.clone())),
        Operation::Delete(id, _) => Ok(serde_json::from_str(&context.existing(id)?.body)?),
        Operation::Patch(..) | Operation::Read(..) => Err(ServiceError::bad_request(
            "Triggers run on creates, upserts, replaces and deletes.",
        )),
    }
}

/// Replaces the document of a write by the body that a pre-trigger left.
fn replace_body(operation: &mut Operation, body: &Value) -> Result<(), ServiceError> {
    if let Operation::Create(document)
    | Operation::Upsert(document, _)
    | Operation::Replace(_, document, _) = operation
    {
        *document = match body {
            // A script can also set the text of a document.
            Value::String(text) => serde_json::from_str(text)?,
            other => serde_json::from_value::<Map<String, Value>>(other.clone())?,
        };
    }
    Ok(())
}
