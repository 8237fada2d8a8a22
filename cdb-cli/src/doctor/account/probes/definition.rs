//! The container as a resource: its index, its definition, its version.

use cdb_client::ContainerClient;
use cdb_client::database::OnDifference;
use cdb_client::transport::http::Method;
use cdb_client::write::RawTarget;
use serde_json::{Map, Value};

use crate::doctor::account::answer::{Answer, Failure, Outcome};
use crate::doctor::account::check::{Check, config};
use crate::doctor::account::raw::Raw;
use crate::doctor::account::samples::{After, Before};

/// What every write of a container changes.
const OF_A_VERSION: [&str; 2] = ["_etag", "_ts"];
/// What the extension of [`Before`] to [`After`] adds to.
const EXTENDED: [&str; 2] = ["indexingPolicy", "defaultTtl"];

pub(super) async fn index(check: &Check) -> Outcome {
    check.container()?;
    let progress = check.database.indexing_progress(&check.name).await?;
    Ok(match progress {
        Some(progress) => Answer::when(progress == 100, format!("{progress} %")),
        None => Answer::No("the service does not report the progress".to_owned()),
    })
}

/// A container, its definition before an extension and after it.
struct Extended {
    container: ContainerClient<After>,
    before: Map<String, Value>,
    after: Map<String, Value>,
}

impl Extended {
    async fn create(check: &Check, suffix: &str) -> Result<Self, Failure> {
        let name = format!("{}-{suffix}", check.name);
        let opened = check.database.bootstrap::<Before>(&name, config()).await?;
        let before = definition(&opened).await?;
        let extend = config().with_on_difference(OnDifference::Extend);
        let container = check.database.bootstrap::<After>(&name, extend).await?;
        let after = definition(&container).await?;
        Ok(Self {
            container,
            before,
            after,
        })
    }
}

async fn definition<C: cdb_model::Container>(
    container: &ContainerClient<C>,
) -> Result<Map<String, Value>, Failure> {
    let read = Raw::new(Method::GET, RawTarget::Container);
    let read = read.send(container).await?;
    match read.body {
        Value::Object(members) => Ok(members),
        _ => Err(format!("a container answers {}", read.outline()).into()),
    }
}

/// Compares the JSON strictly: other members are equal, and lists of the policy begin with the same
/// entries. Source of the replaced definition: REST, "Replace a collection".
pub(super) async fn extension(check: &Check) -> Outcome {
    let extended = Extended::create(check, "extended").await?;
    let changed = changes(&extended.before, &extended.after);
    let name = extended.container.name();
    let lacking = check.database.differences::<After>(name).await?;
    check.delete(&extended.container).await;
    Ok(match changed {
        Ok(added) => Answer::when(
            added > 0 && lacking.is_empty(),
            format!("{added} additions; all other members are equal"),
        ),
        Err(member) => Answer::No(format!("`{member}` has changed")),
    })
}

/// Returns the number of additions, or the member that has changed otherwise.
fn changes(before: &Map<String, Value>, after: &Map<String, Value>) -> Result<usize, String> {
    let mut added = 0;
    for name in before.keys().chain(after.keys()) {
        let is_known = OF_A_VERSION.contains(&&**name) || EXTENDED.contains(&&**name);
        if !is_known && before.get(name) != after.get(name) {
            return Err(name.clone());
        }
    }
    added += usize::from(!before.contains_key("defaultTtl") && after["defaultTtl"] == -1);
    let none = Vec::new();
    let empty = Map::new();
    let policy = |of: &Map<String, Value>| of["indexingPolicy"].as_object().cloned();
    let before = policy(before).unwrap_or(empty);
    let after = policy(after).ok_or("indexingPolicy")?;
    for name in before
        .keys()
        .chain(after.keys().filter(|name| !before.contains_key(*name)))
    {
        let list = |of: &Map<String, Value>| match of.get(name) {
            Some(Value::Array(list)) => Some(list.clone()),
            None => Some(none.clone()),
            Some(_) => None,
        };
        match (list(&before), list(&after)) {
            (Some(old), Some(new)) if new.starts_with(&old) => added += new.len() - old.len(),
            (None, None) if before.get(name) == after.get(name) => {}
            _ => return Err(name.clone()),
        }
    }
    Ok(added)
}

/// Source: REST, "Common request headers": If-Match, "applicable only on PUT and DELETE".
pub(super) async fn container_etag(check: &Check) -> Outcome {
    let extended = Extended::create(check, "deleted").await?;
    let delete = |of: &Map<String, Value>| {
        let etag = of["_etag"].as_str().unwrap_or_default();
        Raw::new(Method::DELETE, RawTarget::Container).with("if-match", etag)
    };
    let outdated = delete(&extended.before).send(&extended.container).await?;
    let current = delete(&extended.after).send(&extended.container).await?;
    if current.status == 412 {
        check.delete(&extended.container).await;
    }
    Ok(Answer::when(
        outdated.status == 412 && current.status == 204,
        format!("{}, then {}", outdated.outline(), current.outline()),
    ))
}
