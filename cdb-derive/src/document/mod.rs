//! `#[derive(Document)]`.

mod attr;
mod check;
mod computed;
mod derive;
mod expand;
mod fallback;
mod model;
mod role;
mod search;
mod value;

pub(crate) use model::DocumentModel;

#[cfg(test)]
mod tests;
