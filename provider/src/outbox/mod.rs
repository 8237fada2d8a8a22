//! Messages between instances: committed by their sender, then delivered at once or by the
//! reconciler.
//!
//! An intent is delivered when every target document exists or has existed. A second delivery
//! conflicts with the documents or traces of the first, and changes nothing.

mod activities;
mod backoff;
mod cancelled;
mod deadline;
mod deliver;
mod documents;
mod find;
mod intent;
mod messages;
mod reconcile;
mod relay;
mod remove;
mod state;

pub(crate) use deliver::{deliver_all, deliver_before_deletion};
pub(crate) use documents::Documents;
pub(crate) use reconcile::run as reconcile;
pub(crate) use state::Delivery;
