//! What there is to see: typed queries on one side, plain structs for the terminal, for JSON and for the dashboard on the
//! other.

pub(crate) mod dead_letters;
pub(crate) mod detail;
pub(crate) mod history;
pub(crate) mod instances;
pub(crate) mod members;
pub(crate) mod outbox;
pub(crate) mod queues;
pub(crate) mod tree;
pub(crate) mod work_item;
