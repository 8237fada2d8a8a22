//! `#[derive(Document)]`.

mod attr;
mod check;
mod derive;
mod expand;
mod fallback;
mod model;
mod value;

pub(crate) use model::DocumentModel;

#[cfg(test)]
mod tests;
