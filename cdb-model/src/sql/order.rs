//! The paths of a sort.

use std::borrow::Cow;

use crate::shape::{CompositeTarget, Direction};

/// One path of a sort.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OrderTerm {
    pub(crate) target: SortTarget,
    pub(crate) direction: Direction,
}

/// What a path of a sort is: declared by the model, or inside a field with `index(*)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SortTarget {
    Discriminator,
    /// A JSON pointer.
    Path(Cow<'static, str>),
}

impl SortTarget {
    /// Returns the JSON pointer in a container with this discriminator.
    pub(crate) fn pointer(&self, discriminator: &str) -> Cow<'_, str> {
        match self {
            Self::Discriminator => Cow::Owned(format!("/{discriminator}")),
            Self::Path(pointer) => Cow::Borrowed(pointer),
        }
    }
}

impl From<CompositeTarget> for SortTarget {
    fn from(target: CompositeTarget) -> Self {
        match target {
            CompositeTarget::Discriminator => Self::Discriminator,
            CompositeTarget::Path(pointer) => Self::Path(Cow::Borrowed(pointer)),
        }
    }
}
