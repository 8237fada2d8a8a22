//! Claims a session for a worker, in the batch that locks one of its activities, conditionally on
//! the version that was free.

use cdb_client::{ContainerClient, ErrorKind};
use cdb_model::{Batch, BatchError, Document, DocumentKey, ETag, Query, Timestamp};
use duroxide::providers::SessionFetchConfig;

use super::table::Sessions;
use crate::error::Result;
use crate::stored::documents::{Durable, Session, SessionKey, WorkerItem};
use crate::timing::SESSION_ASSUMED;

/// The claim of a session, taken together with an activity.
#[derive(Debug)]
pub(crate) struct Claim {
    session: Session,
    /// The version to replace; `None` for a new session.
    etag: Option<ETag>,
}

impl Claim {
    /// Adds the claim to the batch that locks the activity.
    pub(crate) fn add_to(&self, batch: &mut Batch<Durable>) -> Result<(), BatchError> {
        match &self.etag {
            Some(etag) => batch.replace_if_match(&self.session, etag)?,
            None => batch.create(&self.session)?,
        };
        Ok(())
    }
}

/// Returns the session document of a first claim.
fn new_session(item: &WorkerItem, config: &SessionFetchConfig, now: Timestamp) -> Session {
    Session {
        instance_id: item.instance_id.clone(),
        session_id: item.session_id.clone().unwrap_or_default(),
        owner_id: config.owner_id.clone(),
        locked_until: now + config.lock_timeout,
        last_activity: now,
        created_at: now,
    }
}

impl Sessions {
    /// Prepares the claim of an activity's session. Returns `None` while another owner holds it.
    pub(crate) async fn claim(
        &self,
        container: &ContainerClient<Durable>,
        item: &WorkerItem,
        config: &SessionFetchConfig,
        now: Timestamp,
    ) -> Result<Option<Claim>> {
        let session_id = item.session_id.clone().unwrap_or_default();
        let key = SessionKey::new(&*item.instance_id, &*session_id);
        let found = match container.read(&key).await {
            Ok(found) => found,
            Err(error) if error.kind() == ErrorKind::Decode => {
                return self.reclaim(container, item, config, now).await;
            }
            Err(error) => return Err(error.into()),
        };
        let mut session = new_session(item, config, now);
        if let Some(stored) = &found {
            let held = &stored.document;
            if held.locked_until > now && held.owner_id != config.owner_id {
                self.note_held(held, now);
                return Ok(None);
            }
            session.created_at = held.created_at;
        }
        let etag = found.map(|stored| stored.etag);
        Ok(Some(Claim { session, etag }))
    }

    /// Notes a session that another worker holds.
    fn note_held(&self, session: &Session, now: Timestamp) {
        let assumed = Session {
            locked_until: session.locked_until.min(now + SESSION_ASSUMED),
            ..session.clone()
        };
        self.note(&assumed, now);
    }

    /// Claims a session whose document cannot be decoded: replaces it, unless its readable fields
    /// name another holder.
    async fn reclaim(
        &self,
        container: &ContainerClient<Durable>,
        item: &WorkerItem,
        config: &SessionFetchConfig,
        now: Timestamp,
    ) -> Result<Option<Claim>> {
        let session = new_session(item, config, now);
        let id = session.key().to_id()?;
        let all = Query::<Session>::in_partition(&*item.instance_id);
        let rows = container.query(all).row_by_row().all().await?;
        let found = rows
            .into_iter()
            .filter_map(Result::err)
            .find(|found| found.location.as_ref().is_some_and(|at| at.id == id));
        // Deleted or decodable by now: the next fetch claims it.
        let Some(found) = found else {
            return Ok(None);
        };
        self.corrupt_documents.report(&found);
        let held = Session {
            locked_until: found.field(Session::LOCKED_UNTIL).unwrap_or(now),
            owner_id: found
                .field(Session::OWNER_ID)
                .unwrap_or_else(|| config.owner_id.clone()),
            ..session.clone()
        };
        if held.locked_until > now && held.owner_id != config.owner_id {
            self.note_held(&held, now);
            return Ok(None);
        }
        let etag = found.location.map(|location| location.etag);
        Ok(Some(Claim { session, etag }))
    }

    /// Notes a committed claim.
    pub(crate) fn claimed(&self, claim: &Claim) {
        self.note_own(&claim.session, claim.session.last_activity);
    }
}
