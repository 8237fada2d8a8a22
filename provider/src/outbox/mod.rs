//! Messages between instances: committed by their sender, delivered afterwards, at once or by the reconciler.

mod deliver;
mod reconcile;

pub(crate) use deliver::deliver_all;
pub(crate) use reconcile::run as reconcile;
