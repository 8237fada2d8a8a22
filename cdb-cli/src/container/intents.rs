//! The outboxes of instances. An intent holds the messages of one turn to another instance.

use async_trait::async_trait;
use cdb_client::Page;
use cdb_client::query::Continuation;
use cdb_model::{Query, Stored};
use cdb_provider::documents::{NEVER, OutboxIntent};

use super::Orchestrations;
use super::work_item::describe;
use crate::exit::Failure;
use crate::model::messages::{
    Action, List, MessageDetail, MessageName, MessageRow, MessageSource, Outcome, Source, State,
    Step,
};

pub(super) struct Intents(pub(super) Orchestrations);

#[async_trait]
impl MessageSource for Intents {
    fn source(&self) -> Source {
        Source::Instances
    }

    fn steps(&self) -> &'static [Step] {
        &[Step::Delivery]
    }

    async fn page(
        &self,
        list: List,
        rows: usize,
        from: Option<&Continuation>,
    ) -> Result<Page<MessageRow>, Failure> {
        let query = intents(list).order_by(OutboxIntent::BY_CREATED);
        let page = self.0.container.query(query).page(rows, from).await?;
        Ok(Page {
            rows: page.rows.iter().map(row).collect(),
            next: page.next,
        })
    }

    async fn count(&self, list: List) -> Result<u64, Failure> {
        let count = self.0.container.query(intents(list).count());
        Ok(count.first().await?.unwrap_or_default())
    }

    async fn find(&self, name: &MessageName) -> Result<Option<MessageDetail>, Failure> {
        Ok(self.read(name).await?.map(|stored| MessageDetail {
            row: row(&stored),
            contents: described(&stored.document),
            history: Vec::new(),
        }))
    }

    async fn apply(&self, name: &MessageName, action: Action) -> Result<Outcome, Failure> {
        let Some(stored) = self.read_dead(name).await? else {
            return Ok(Outcome::Gone);
        };
        let applied = match action {
            Action::Redrive => self.0.provider.deliver_again(&stored).await,
            Action::Discard => self.0.provider.discard(&stored).await,
        };
        match applied {
            Err(_) if self.read_dead(name).await?.is_none() => Ok(Outcome::Gone),
            applied => Ok(applied.map(|()| Outcome::Done)?),
        }
    }
}

impl Intents {
    async fn read(&self, name: &MessageName) -> Result<Option<Stored<OutboxIntent>>, Failure> {
        let MessageName::Intent { instance, key } = name else {
            return Ok(None);
        };
        // Documents that `duroxide-cdb` wrote have other ids, so the key selects the intent.
        let query = Query::<OutboxIntent>::in_partition(&**instance);
        let found = self.0.container.query(query).all().await?;
        let mut found = found.into_iter();
        Ok(found.find(|stored| stored.document.idempotency_key == *key))
    }

    async fn read_dead(&self, name: &MessageName) -> Result<Option<Stored<OutboxIntent>>, Failure> {
        Ok(self.read(name).await?.filter(is_dead))
    }
}

/// A dead letter has the creation time [`NEVER`], so that the reconciler does not find it.
fn intents(list: List) -> Query<OutboxIntent> {
    let intents = Query::across_partitions();
    match list {
        List::Dead => intents.filter(OutboxIntent::CREATED_AT.ge(NEVER)),
        List::Retrying(_) => intents.filter(OutboxIntent::CREATED_AT.lt(NEVER)),
    }
}

fn is_dead(stored: &Stored<OutboxIntent>) -> bool {
    stored.document.created_at >= NEVER
}

fn row(stored: &Stored<OutboxIntent>) -> MessageRow {
    let (intent, is_dead) = (&stored.document, is_dead(stored));
    let what = match &*described(intent) {
        [] => "nothing".to_owned(),
        [one] => one.clone(),
        [first, rest @ ..] => format!("{first} and {} more", rest.len()),
    };
    let created = Some(intent.created_at).filter(|_| !is_dead);
    let name = MessageName::Intent {
        instance: intent.instance_id.clone(),
        key: intent.idempotency_key.clone(),
    };
    let state = if is_dead {
        State::Dead
    } else {
        State::Retrying
    };
    MessageRow {
        from: Some(intent.instance_id.clone()),
        to: intent.target_instance_id.clone(),
        what,
        attempts: intent.attempt_count,
        reason: intent.failure.clone().unwrap_or_default(),
        sent_at: intent.committed_at.or(created),
        dead_since: is_dead.then_some(stored.timestamp),
        ..MessageRow::new(name, state, Step::Delivery)
    }
}

/// Describes each message of an intent.
fn described(intent: &OutboxIntent) -> Vec<String> {
    let items = intent.items.iter().map(|item| item.work_item.header());
    let more = intent.more.as_ref();
    let more = more.map(|more| format!("more messages, {} bytes in parts", more.bytes));
    let all = items
        .chain(intent.payload.as_deref())
        .map(|stored| describe(stored, |message| message));
    all.chain(more).collect()
}
