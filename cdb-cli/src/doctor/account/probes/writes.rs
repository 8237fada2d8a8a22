//! Conditions on versions, and expiry.

use cdb_model::{Document as _, Patch};
use serde_json::json;

use crate::doctor::account::answer::{Answer, Outcome};
use crate::doctor::account::check::{Check, config, wait};
use crate::doctor::account::raw::Raw;
use crate::doctor::account::samples::{Guest, Keyed, Sample};

/// The longest time until an expired document must be gone.
const EXPIRY_SECONDS: u64 = 10;

/// Source: database-transactions-optimistic-concurrency.md.
pub(super) async fn outdated_etag(check: &Check) -> Outcome {
    let container = check.container()?;
    let sample = Sample::new("etag", "patched");
    let written = container.run(sample.create()).await?;
    let key = sample.key();
    let patch = |group: &str| Patch::<Sample>::new().set(Sample::GROUP, group.to_owned());
    let first = patch("first");
    container
        .run(first.at(&key).if_match(&written.etag))
        .await?;
    let second = patch("second");
    let again = container.run(second.at(&key).if_match(&written.etag));
    Ok(refusal(again.await.map(drop)))
}

/// Source: REST, "Common request headers": If-Match, "applicable only on PUT and DELETE".
pub(super) async fn deletion_etag(check: &Check) -> Outcome {
    let container = check.container()?;
    let sample = Sample::new("etag", "deleted");
    let written = container.run(sample.create()).await?;
    container.run(sample.upsert()).await?;
    let key = sample.key();
    let deleted = container.run(key.delete().if_match(&written.etag));
    Ok(refusal(deleted.await))
}

fn refusal(outcome: cdb_client::Result<()>) -> Answer {
    match outcome {
        Err(error) if error.is_precondition_failed() => Answer::Yes("412".to_owned()),
        Err(error) => Answer::No(error.to_string()),
        Ok(()) => Answer::No("an outdated ETag was accepted".to_owned()),
    }
}

/// Source: azure-cosmos-dotnet-v3#1698: an upsert that creates ignores the condition.
pub(super) async fn upsert_of_missing(check: &Check) -> Outcome {
    let container = check.container()?;
    let other = container.run(Sample::new("etag", "other").create()).await?;
    let missing = Sample::new("etag", "missing");
    let upserted = container.run(missing.upsert().if_match(&other.etag)).await;
    let exists = container.read(&missing.key()).await?.is_some();
    Ok(match upserted {
        Ok(_) => Answer::when(exists, "it is created"),
        Err(error) => Answer::No(error.to_string()),
    })
}

/// Source: time-to-live.md: an expired item is not returned, even before it is deleted.
pub(super) async fn expiry(check: &Check) -> Outcome {
    let item = json!({ "id": "expiring", "instanceId": "ttl", "ttl": 1 });
    check.upsert("ttl", &item).await?;
    let first = check.send(&Raw::read("ttl", "expiring")).await?;
    for seconds in 1..=EXPIRY_SECONDS {
        wait(1).await;
        let read = check.send(&Raw::read("ttl", "expiring")).await?;
        if read.status == 404 {
            return Ok(Answer::when(
                first.status == 200,
                format!("a `ttl` of 1 s took at most {seconds} s"),
            ));
        }
    }
    Ok(Answer::No(format!(
        "it is still there after {EXPIRY_SECONDS} s"
    )))
}

/// Sources differ: azure-cosmos-java `docs/StatusCodes.md` (409/0), azure_data_cosmos_driver
/// `cosmos_status.rs` (409/3301), azure-cosmos-dotnet-v2#523 (the text).
pub(super) async fn unique_key(check: &Check) -> Outcome {
    let name = format!("{}-keyed", check.name);
    let container = check.database.bootstrap::<Keyed>(&name, config()).await?;
    let create = async |name: &str, badge| {
        let (place, name) = ("inn".to_owned(), name.to_owned());
        let guest = Guest { place, name, badge };
        container.run(guest.create()).await.map(drop)
    };
    let first = create("ann", 1).await;
    let (key, id, both) = (
        create("bob", 1).await,
        create("ann", 2).await,
        create("ann", 1).await,
    );
    check.delete(&container).await;
    first?;
    let holds = matches!(&key, Err(error) if error.is_unique_key_conflict())
        && [&id, &both].map(|refused| matches!(refused, Err(error) if error.is_conflict()))
            == [true, true];
    let said = |refused: &cdb_client::Result<()>| match refused {
        Ok(()) => "accepted".to_owned(),
        Err(error) => error.to_string(),
    };
    let (key, id, both) = (said(&key), said(&id), said(&both));
    Ok(Answer::when(
        holds,
        format!("the key: {key}; the id: {id}; both: {both}"),
    ))
}
