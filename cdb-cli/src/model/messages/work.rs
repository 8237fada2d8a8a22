//! The messages of ordered work. Each failed one holds its stream, dead or not.

use async_trait::async_trait;
use cdb_client::query::Continuation;
use cdb_client::{ContainerClient, Page};
use cdb_model::Document as _;
use cdb_work::{Work, WorkAdmin, WorkError, WorkMessage};

use super::kind::{Action, List, Outcome, Source, State, Step};
use super::name::MessageName;
use super::row::{MessageDetail, MessageRow, WorkPosition};
use super::source::MessageSource;
use crate::exit::Failure;

pub(crate) struct OrderedWork {
    container: ContainerClient<Work>,
    admin: WorkAdmin,
}

impl OrderedWork {
    pub(crate) fn new(container: ContainerClient<Work>) -> Self {
        let admin = WorkAdmin::new(container.clone());
        Self { container, admin }
    }
}

#[async_trait]
impl MessageSource for OrderedWork {
    fn source(&self) -> Source {
        Source::Work
    }

    fn steps(&self) -> &'static [Step] {
        &[Step::Handling]
    }

    async fn page(
        &self,
        list: List,
        rows: usize,
        from: Option<&Continuation>,
    ) -> Result<Page<MessageRow>, Failure> {
        let page = match list {
            List::Dead => self.admin.dead_letters(rows, from).await?,
            List::Retrying(_) => self.admin.retrying(rows, from).await?,
        };
        Ok(Page {
            rows: page.rows.iter().map(row).collect(),
            next: page.next,
        })
    }

    async fn count(&self, list: List) -> Result<u64, Failure> {
        let counts = self.admin.counts().await?;
        Ok(match list {
            List::Dead => counts.dead,
            List::Retrying(_) => counts.retrying,
        })
    }

    async fn find(&self, name: &MessageName) -> Result<Option<MessageDetail>, Failure> {
        let MessageName::Work(key) = name else {
            return Ok(None);
        };
        let mut found = self.admin.dead_letter(key).await?;
        if found.is_none() {
            let read = self.container.read(key).await?.map(|read| read.document);
            // Earlier versions leave the mark on a completed message.
            found = read.filter(|found| found.retrying && found.waiting_since.is_some());
        }
        Ok(found.map(|message| MessageDetail {
            row: row(&message),
            contents: vec![message.body],
            history: Vec::new(),
        }))
    }

    async fn apply(&self, name: &MessageName, action: Action) -> Result<Outcome, Failure> {
        let MessageName::Work(key) = name else {
            return Ok(Outcome::Gone);
        };
        let Some(message) = self.admin.dead_letter(key).await? else {
            return Ok(Outcome::Gone);
        };
        let applied = match action {
            Action::Redrive => self.admin.redrive(&message).await,
            Action::Discard => self.admin.discard(&message).await,
        };
        match applied {
            Ok(()) => Ok(Outcome::Done),
            Err(WorkError::NotDead { .. }) => Ok(Outcome::Gone),
            Err(WorkError::Service(error)) => Err(Failure::from(&*error)),
            Err(error) => Err(Failure::service(error.to_string())),
        }
    }
}

fn row(message: &WorkMessage) -> MessageRow {
    let is_dead = message.dead_since.is_some();
    let state = if is_dead {
        State::Dead
    } else {
        State::Retrying
    };
    MessageRow {
        to: message.stream.clone(),
        what: message.kind.clone(),
        attempts: message.attempts,
        reason: message.last_failure.clone().unwrap_or_default(),
        next_attempt_at: (message.retrying && !is_dead).then_some(message.due_at),
        dead_since: message.dead_since,
        blocks_stream: true,
        work: Some(WorkPosition {
            partition: message.partition.clone(),
            lane: message.lane,
            id: message.message_id.clone(),
            sequence: message.sequence,
            waiting_since: message.waiting_since,
        }),
        ..MessageRow::new(MessageName::Work(message.key()), state, Step::Handling)
    }
}
