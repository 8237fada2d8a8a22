//! Types of other crates, a file per crate, each behind the feature of the crate's name.
//!
//! A type is a `Scalar` itself if its own serde form is canonical, and `Ordered` if that form sorts;
//! `SortableText` stores the others. None of these forms needs serde's feature of the crate.

#[cfg(any(feature = "chrono", feature = "jiff", feature = "time"))]
mod calendar;
#[cfg(feature = "chrono")]
mod chrono;
#[cfg(feature = "jiff")]
mod jiff;
#[cfg(feature = "rust_decimal")]
mod rust_decimal;
#[cfg(feature = "time")]
mod time;
#[cfg(feature = "uuid")]
mod uuid;
