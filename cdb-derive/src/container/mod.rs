//! `#[derive(Container)]`.

mod attr;
mod check;
mod derive;
mod expand;
mod model;

pub(crate) use model::ContainerModel;

#[cfg(test)]
mod tests;
