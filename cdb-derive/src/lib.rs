//! Derive macros of `cdb-model` and `cdb-provider`. Use them through these crates, which document
//! them.
//!
//! A derive reads attributes (`attr`), builds and checks a model (`model`, `check`) and generates
//! tokens (`expand`). Only the last stage uses `quote!`. Everything except the entry points
//! works on `proc_macro2`, so tests need no compiler.

mod attributes;
mod container;
mod document;
mod input;
mod output;
mod projection;
mod scalar;
mod sql;

use proc_macro::TokenStream;

use attributes::AttributesModel;
use container::ContainerModel;
use document::{DocumentModel, PartitionKeyModel};
use output::derived;
use projection::ProjectionModel;
use scalar::ScalarModel;

/// Describes how a struct is stored as a document: id, partition key, indexed paths.
#[doc = include_str!("../docs/document.md")]
#[proc_macro_derive(Document, attributes(document))]
pub fn derive_document(input: TokenStream) -> TokenStream {
    derived::derive::<DocumentModel>(input.into()).into()
}

/// Makes a struct the partition key of document types, which contain it with `#[serde(flatten)]` and
/// `#[document(partition_key)]`. The trait of the same name documents it.
#[proc_macro_derive(PartitionKeyFields, attributes(document))]
pub fn derive_partition_key_fields(input: TokenStream) -> TokenStream {
    derived::derive::<PartitionKeyModel>(input.into()).into()
}

/// Describes which document types share a container, as an enum over them.
#[doc = include_str!("../docs/container.md")]
#[proc_macro_derive(Container, attributes(container))]
pub fn derive_container(input: TokenStream) -> TokenStream {
    derived::derive::<ContainerModel>(input.into()).into()
}

/// Makes the fields of a struct the search attributes of an orchestration. The trait of the same
/// name in `cdb-provider` documents it.
#[proc_macro_derive(SearchAttributes)]
pub fn derive_search_attributes(input: TokenStream) -> TokenStream {
    derived::derive::<AttributesModel>(input.into()).into()
}

/// Selects fields of a document type as a struct.
#[doc = include_str!("../docs/projection.md")]
#[proc_macro_derive(Projection, attributes(projection))]
pub fn derive_projection(input: TokenStream) -> TokenStream {
    derived::derive::<ProjectionModel>(input.into()).into()
}

/// Declares that filters can compare an enum of unit variants or a newtype. The trait of the same
/// name documents it. A newtype also gets the traits `Ordered`, `IdPart` and `PartitionKeyPart` that
/// its content has. `#[scalar(crate = path)]` names another path of `cdb_model`.
#[proc_macro_derive(Scalar, attributes(scalar))]
pub fn derive_scalar(input: TokenStream) -> TokenStream {
    derived::derive::<ScalarModel>(input.into()).into()
}

/// Checks an SQL statement against the model.
#[doc = include_str!("../docs/sql.md")]
#[proc_macro]
pub fn sql(input: TokenStream) -> TokenStream {
    sql::statement(input.into()).into()
}
