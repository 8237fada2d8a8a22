//! Sends a planned batch until its outcome is known.
//!
//! A batch whose outcome stays unknown is kept and sent again as it is: a new plan would write the
//! effects of its reports twice. The first operation refuses a batch that was written before. It
//! checks the token of the last batch, or, in a batch without reports, the next number of a stream.

use cdb_client::write::BatchOutcome;
use cdb_client::{ContainerClient, Error};
use cdb_coordination::lease::{Fenced, FencedWrite, Found, execute_fenced};
use cdb_model::value::PartitionKeyValue;

use crate::memory::inner::Inner;
use crate::memory::plan::{Plan, message_key};
use crate::streams::documents::{Work, WorkPartitionKey};

/// The outcome of a batch.
pub(crate) enum Sent {
    Written,
    /// The batch was not written.
    Refused(Error),
    /// The batch may be written, or be written later.
    Unknown(Error),
}

struct Sending<'a> {
    container: &'a ContainerClient<Work>,
    plan: &'a Plan,
    was_sent: bool,
}

impl Inner {
    /// Sends a batch. `was_sent` tells that an earlier call did not learn its outcome.
    pub(crate) async fn send(&self, plan: &Plan, was_sent: bool) -> Sent {
        let mut sending = Sending {
            container: &self.container,
            plan,
            was_sent,
        };
        match execute_fenced(&mut sending).await {
            // The earlier call may have written it.
            Ok(Fenced::Refused(error)) if was_sent && error.is_transient() => Sent::Unknown(error),
            Ok(Fenced::Refused(error)) => Sent::Refused(error),
            Ok(Fenced::Unknown(Some(error))) | Err(error) => Sent::Unknown(error),
            // `find_out` reports no other writer, and a send without a timeout has an answer or an
            // error.
            Ok(
                Fenced::Committed(_)
                | Fenced::CommittedBefore
                | Fenced::Lost
                | Fenced::Unknown(None),
            ) => Sent::Written,
        }
    }
}

impl FencedWrite for Sending<'_> {
    type Container = Work;
    type Answer = BatchOutcome<Work>;
    type Error = Error;

    fn container(&self) -> &ContainerClient<Work> {
        self.container
    }

    fn may_be_repeated(&self) -> bool {
        self.was_sent
    }

    async fn send(&self) -> Result<BatchOutcome<Work>, Error> {
        self.container.execute(&self.plan.batch).await
    }

    /// Looks for the token of the batch.
    async fn find_out(&mut self, latest: &ContainerClient<Work>) -> Result<Found, Error> {
        let token = if self.plan.lease.is_some()
            && let Some(partition) = partition_of(self.plan)
        {
            let read = latest.read(&partition).await?;
            read.map(|stored| stored.document.token)
        } else if let Some((_, message)) = self.plan.stored.first() {
            let read = latest.read(&message_key(message)).await?;
            read.map(|stored| stored.document.token)
        } else {
            None
        };
        Ok(match token {
            Some(token) if token == self.plan.token => Found::Done,
            _ => Found::Unchanged,
        })
    }
}

fn partition_of(plan: &Plan) -> Option<WorkPartitionKey> {
    match plan.batch.partition_key().values() {
        [PartitionKeyValue::String(name)] => Some(WorkPartitionKey::new(name.clone())),
        _ => None,
    }
}
