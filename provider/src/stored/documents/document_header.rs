//! The properties that locate a document in an export, whatever its type.

use std::borrow::Cow;

use serde::Deserialize;

/// The type and the place of a document. Documents of other containers lack some of them.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DocumentHeader<'a> {
    /// The id.
    #[serde(borrow)]
    pub(crate) id: Cow<'a, str>,
    /// The instance whose partition holds the document.
    #[serde(borrow, default)]
    pub(crate) instance_id: Option<Cow<'a, str>>,
    /// The discriminator.
    #[serde(borrow, default)]
    pub(crate) r#type: Option<Cow<'a, str>>,
}
