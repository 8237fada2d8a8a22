//! The requests: join, heartbeat, remove, leave. Each change is one batch under the ETags of all that it replaces.
//!
//! After a lost answer the member's own document is read: its incarnation says whether it is still this process's.

use std::marker::PhantomData;
use std::time::Duration;

use cdb_client::{ContainerClient, Error, ErrorKind};
use cdb_model::{
    Batch, BatchError, Container, Document, ETag, MemberOf, OperationIndex, PartitionKey, Stored,
};

use super::config::MembershipConfig;
use super::document::{MemberDocument, MemberRecord};
use super::failure_detector::Sighting;

/// The roster's name. A member's document is `member.` and its name, so no member can take it.
const ROSTER: &str = "roster";

/// How often a change is tried that others come before.
const TRIES: u32 = 16;

/// How much longer each of these tries waits than the one before, at most.
const PAUSE: Duration = Duration::from_millis(20);

/// Why a request did not do what it was for.
#[derive(Debug, thiserror::Error)]
pub(super) enum RosterError {
    /// Another process has joined under this member's name.
    #[error("another process has joined under this member's name")]
    Replaced,
    /// This member was removed.
    #[error("this member is not on the roster")]
    Removed,
    /// No answer in time; nobody knows what took place.
    #[error("no answer within a heartbeat")]
    Late,
    #[error(transparent)]
    Client(#[from] Error),
    #[error(transparent)]
    Batch(#[from] BatchError),
}

/// Why a heartbeat was refused.
enum Refused {
    /// This one of those that are watched has no document any more.
    NoDocument(usize),
    /// The own document has another version.
    OwnChanged,
    Other(RosterError),
}

impl<E: Into<RosterError>> From<E> for Refused {
    fn from(error: E) -> Self {
        Self::Other(error.into())
    }
}

/// The roster as one request has seen it.
#[derive(Clone, Debug)]
pub(super) struct Listed {
    /// Ascending.
    pub(super) members: Vec<String>,
    /// Its version; nothing where there is no roster yet.
    etag: Option<ETag>,
}

impl Listed {
    pub(super) fn contains(&self, member: &str) -> bool {
        self.members.iter().any(|known| known == member)
    }
}

/// What a heartbeat has seen, all at one moment.
#[derive(Debug)]
pub(super) struct Beat {
    pub(super) listed: Listed,
    pub(super) sightings: Vec<Sighting>,
    /// On the roster, but without a document: nobody who lives.
    pub(super) missing: Vec<String>,
}

/// One member's access to its group.
pub(super) struct Roster<C, D> {
    container: ContainerClient<C>,
    config: MembershipConfig,
    incarnation: String,
    /// The version of the own document; unknown after a lost answer.
    own: Option<ETag>,
    marker: PhantomData<fn() -> D>,
}

impl<C: Container, D: MemberDocument + MemberOf<C>> Roster<C, D> {
    pub(super) fn new(container: ContainerClient<C>, config: MembershipConfig) -> Self {
        Self {
            container,
            config,
            incarnation: uuid::Uuid::new_v4().to_string(),
            own: None,
            marker: PhantomData,
        }
    }

    /// Puts this process on the roster, in place of whoever has its name. Its slots stay where they are then.
    pub(super) async fn join(&mut self) -> Result<Listed, RosterError> {
        self.enter(false).await
    }

    /// The same for one who was removed: whoever has taken its name meanwhile came later, and counts.
    pub(super) async fn rejoin(&mut self) -> Result<Listed, RosterError> {
        self.enter(true).await
    }

    async fn enter(&mut self, again: bool) -> Result<Listed, RosterError> {
        let mut tries = 0;
        loop {
            let own = self.find(&self.own_name()).await?;
            let is_ours = own.as_ref().is_some_and(|own| self.is_ours(own));
            if again && own.is_some() && !is_ours {
                return Err(RosterError::Replaced);
            }
            let mut listed = self.listed().await?;
            let on_roster = listed.contains(&self.config.member);
            self.own = own.map(|own| own.etag);
            if is_ours && on_roster {
                return Ok(listed);
            }
            let mut batch = self.batch();
            match &self.own {
                Some(etag) => batch.replace_if_match(&self.sign_of_life(), etag)?,
                None => batch.create(&self.sign_of_life())?,
            };
            if !on_roster {
                listed.members.push(self.config.member.clone());
                self.write_roster(&mut batch, &listed)?;
            }
            match self.container.execute(&batch).await {
                // The next round reads what is there now, which all that follows rests on.
                Ok(_) => {}
                Err(error) if tries < TRIES && (was_too_late(&error) || error.is_ambiguous()) => {}
                Err(error) => return Err(error.into()),
            }
            self.pause(tries).await;
            tries += 1;
        }
    }

    /// Writes a sign of life, and sees the roster and those that are watched. One request, unless somebody has just
    /// left or an answer was lost.
    pub(super) async fn beat(&mut self, watched: &[String]) -> Result<Beat, RosterError> {
        let mut watched = watched.to_vec();
        let mut missing: Vec<String> = Vec::new();
        loop {
            let etag = match self.own.take() {
                Some(etag) => etag,
                None => self.find_own().await?,
            };
            match self.try_beat(&etag, &watched).await {
                Ok(mut beat) => {
                    missing.retain(|name| beat.listed.contains(name));
                    beat.missing = missing;
                    return Ok(beat);
                }
                // Nothing took place: who has left is not asked for again.
                Err(Refused::NoDocument(at)) => {
                    self.own = Some(etag);
                    missing.push(watched.remove(at));
                }
                // Written by a request whose answer was lost, or by who has this name now.
                Err(Refused::OwnChanged) => {}
                Err(Refused::Other(error)) => return Err(error),
            }
        }
    }

    async fn try_beat(&mut self, etag: &ETag, watched: &[String]) -> Result<Beat, Refused> {
        let mut batch = self.batch();
        let own = batch.replace_if_match(&self.sign_of_life(), etag)?;
        let roster = batch.read(&self.key(ROSTER))?;
        let others = watched
            .iter()
            .map(|name| batch.read(&self.key(&document_name(name))))
            .collect::<Result<Vec<_>, _>>()?;
        let outcome = self.container.execute(&batch).await.map_err(|error| {
            let culprit = error.operation_index();
            let other = |index: OperationIndex| Some(index.get()) == culprit;
            match others.iter().position(|&index| other(index)) {
                Some(at) if error.is_not_found() => Refused::NoDocument(at),
                None if error.is_not_found() && culprit.is_some() => RosterError::Removed.into(),
                _ if error.is_precondition_failed() => Refused::OwnChanged,
                _ => error.into(),
            }
        })?;
        self.own = outcome.etag(own).cloned();
        let listed = as_listed(outcome.document::<D>(roster)?);
        if !listed.contains(&self.config.member) {
            return Err(RosterError::Removed.into());
        }
        let mut sightings = Vec::with_capacity(others.len());
        for (name, index) in watched.iter().zip(others) {
            match outcome.document::<D>(index) {
                Ok(seen) => sightings.extend(seen.and_then(|seen| sighting(name, seen))),
                // It cannot be written either, so its member falls silent, is removed, and joins again if it lives.
                Err(error) => {
                    tracing::warn!(member = name, %error, "a member's document cannot be read");
                    sightings.extend(outcome.etag(index).map(|etag| Sighting {
                        name: name.clone(),
                        etag: etag.clone(),
                        period: self.config.period(),
                    }));
                }
            }
        }
        Ok(Beat {
            listed,
            sightings,
            missing: Vec::new(),
        })
    }

    /// Takes silent members off the roster, unless one of them has written since, or somebody else was quicker. Returns
    /// who is left.
    pub(super) async fn remove(
        &self,
        listed: &Listed,
        silent: &[Sighting],
        missing: &[String],
    ) -> Result<Option<Listed>, RosterError> {
        let mut batch = self.batch();
        for sighting in silent {
            let key = self.key(&document_name(&sighting.name));
            batch.delete_if_match(&key, &sighting.etag)?;
        }
        let mut listed = listed.clone();
        listed.members.retain(|name| {
            !missing.contains(name) && !silent.iter().any(|sighting| sighting.name == *name)
        });
        let roster = self.write_roster(&mut batch, &listed)?;
        match self.container.execute(&batch).await {
            Ok(outcome) => {
                listed.etag = outcome.etag(roster).cloned();
                Ok(Some(listed))
            }
            Err(error) if was_too_late(&error) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Takes this process off the roster, unless somebody else has its name by now.
    pub(super) async fn leave(&mut self) -> Result<(), RosterError> {
        let mut tries = 0;
        loop {
            let found = self.find(&self.own_name()).await?;
            let Some(own) = found.filter(|own| self.is_ours(own)) else {
                return Ok(());
            };
            let mut listed = self.listed().await?;
            listed.members.retain(|name| *name != self.config.member);
            let mut batch = self.batch();
            batch.delete_if_match(&self.key(&self.own_name()), &own.etag)?;
            self.write_roster(&mut batch, &listed)?;
            match self.container.execute(&batch).await {
                Ok(_) => return Ok(()),
                Err(error) if tries < TRIES && (was_too_late(&error) || error.is_ambiguous()) => {}
                Err(error) => return Err(error.into()),
            }
            self.pause(tries).await;
            tries += 1;
        }
    }

    /// The version of the own document, if it is still this process's.
    async fn find_own(&self) -> Result<ETag, RosterError> {
        match self.find(&self.own_name()).await? {
            Some(own) if self.is_ours(&own) => Ok(own.etag),
            Some(_) => Err(RosterError::Replaced),
            None => Err(RosterError::Removed),
        }
    }

    async fn find(&self, name: &str) -> Result<Option<Stored<MemberRecord>>, RosterError> {
        let (partition, key) = (self.partition(), self.key(name));
        // What is read after a lost answer must not be older than what that request may have written.
        let now = self.container.latest_committed();
        let found = now.read_in(&partition, &key).await?;
        Ok(found.map(|stored| stored.map(D::into_record)))
    }

    async fn listed(&self) -> Result<Listed, RosterError> {
        let (partition, key) = (self.partition(), self.key(ROSTER));
        let now = self.container.latest_committed();
        Ok(as_listed(now.read_in(&partition, &key).await?))
    }

    fn is_ours(&self, own: &Stored<MemberRecord>) -> bool {
        matches!(&own.document, MemberRecord::Heartbeat { incarnation, .. } if *incarnation == self.incarnation)
    }

    fn own_name(&self) -> String {
        document_name(&self.config.member)
    }

    fn document(&self, name: &str, record: MemberRecord) -> D {
        D::new(&self.config.group, name, record)
    }

    fn sign_of_life(&self) -> D {
        let period = self.config.period().as_millis();
        let record = MemberRecord::Heartbeat {
            incarnation: self.incarnation.clone(),
            period_ms: u64::try_from(period).unwrap_or(u64::MAX),
            at: self.container.now(),
        };
        self.document(&self.own_name(), record)
    }

    fn write_roster(
        &self,
        batch: &mut Batch<C>,
        listed: &Listed,
    ) -> Result<OperationIndex, BatchError> {
        let members = listed.members.clone();
        let roster = self.document(ROSTER, MemberRecord::Roster { members });
        match &listed.etag {
            Some(etag) => batch.replace_if_match(&roster, etag),
            None => batch.create(&roster),
        }
    }

    fn key(&self, name: &str) -> D::Key {
        let members = Vec::new();
        self.document(name, MemberRecord::Roster { members }).key()
    }

    fn partition(&self) -> PartitionKey {
        let members = Vec::new();
        let roster = self.document(ROSTER, MemberRecord::Roster { members });
        Document::partition_key(&roster)
    }

    fn batch(&self) -> Batch<C> {
        Batch::new(self.partition())
    }

    /// Members that start together come before each other; a random time between the tries spreads them.
    async fn pause(&self, tries: u32) {
        let longest = PAUSE * tries;
        let (own, _) = uuid::Uuid::new_v4().as_u64_pair();
        let share = u32::try_from(own % 1000).unwrap_or_default();
        tokio::time::sleep(longest * share / 1000).await;
    }
}

fn document_name(member: &str) -> String {
    format!("member.{member}")
}

/// Whether somebody else has changed what a batch rests on.
fn was_too_late(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Conflict | ErrorKind::PreconditionFailed | ErrorKind::NotFound
    )
}

fn as_listed<D: MemberDocument>(stored: Option<Stored<D>>) -> Listed {
    let Some(stored) = stored else {
        return Listed {
            members: Vec::new(),
            etag: None,
        };
    };
    let mut members = match stored.document.into_record() {
        MemberRecord::Roster { members } => members,
        MemberRecord::Heartbeat { .. } => Vec::new(),
    };
    members.sort_unstable();
    members.dedup();
    Listed {
        members,
        etag: Some(stored.etag),
    }
}

fn sighting<D: MemberDocument>(name: &str, stored: Stored<D>) -> Option<Sighting> {
    match stored.document.into_record() {
        MemberRecord::Heartbeat { period_ms, .. } => Some(Sighting {
            name: name.to_owned(),
            etag: stored.etag,
            period: Duration::from_millis(period_ms),
        }),
        MemberRecord::Roster { .. } => None,
    }
}
