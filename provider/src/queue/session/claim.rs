//! Claims a session for a worker, in the batch that locks one of its activities, conditionally on
//! the version that was free.

use cdb_client::ErrorKind;
use cdb_model::operation::BatchError;
use cdb_model::{Batch, Document, DocumentKey, ETag, Query, Timestamp};
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
            Some(etag) => batch.add(self.session.replace().if_match(etag))?,
            None => batch.add(self.session.create())?,
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
        item: &WorkerItem,
        config: &SessionFetchConfig,
    ) -> Result<Option<Claim>> {
        let now = self.store.now();
        let session_id = item.session_id.clone().unwrap_or_default();
        let key = SessionKey::new(&*item.instance_id, &*session_id);
        let found = match self.store.container.read(&key).await {
            Ok(found) => found.map(|stored| (stored.document, Some(stored.etag))),
            Err(error) if error.kind() == ErrorKind::Decode => {
                let new = new_session(item, config, now);
                match self.corrupt(new).await? {
                    None => return Ok(None),
                    found => found,
                }
            }
            Err(error) => return Err(error.into()),
        };
        let mut session = new_session(item, config, now);
        let Some((held, etag)) = found else {
            return Ok(Some(Claim {
                session,
                etag: None,
            }));
        };
        if held.locked_until > now && held.owner_id != config.owner_id {
            self.note_held(&held, now);
            return Ok(None);
        }
        session.created_at = held.created_at;
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

    /// Returns the readable fields of a session whose document cannot be decoded, completed by a
    /// `new` session, and its version. Returns `None` when the session was deleted or is decodable
    /// by now: the next fetch claims it.
    async fn corrupt(&self, new: Session) -> Result<Option<(Session, Option<ETag>)>> {
        let id = new.key().to_id()?;
        let all = Query::<Session>::in_partition(&*new.instance_id);
        let rows = self.store.container.query(all).row_by_row().all().await?;
        let found = rows
            .into_iter()
            .filter_map(Result::err)
            .find(|found| found.location.as_ref().is_some_and(|at| at.id == id));
        let Some(found) = found else {
            return Ok(None);
        };
        self.store.corrupt_documents.report(&found);
        let held = Session {
            locked_until: found
                .field(Session::LOCKED_UNTIL)
                .unwrap_or(new.last_activity),
            owner_id: found.field(Session::OWNER_ID).unwrap_or(new.owner_id),
            ..new
        };
        Ok(Some((held, found.location.map(|location| location.etag))))
    }

    /// Notes a claim that is sent. If it is refused, the next claim notes the holder.
    pub(crate) fn claimed(&self, claim: &Claim) {
        self.note_own(&claim.session, claim.session.last_activity);
    }
}
