//! Generated code compiles whatever surrounds it: shadowed names, raw identifiers, other crates' paths, macros, denied
//! lints. Most of these promises are kept when this file compiles. The modules are public, since rustc looks for missing
//! documentation only there.
#![deny(missing_docs, unreachable_pub, unused_qualifications, warnings)]
#![deny(clippy::all, clippy::pedantic)]
#![expect(
    missing_debug_implementations,
    reason = "what is derived must not need it"
)]

/// Everything that generated code might be tempted to name, as something else; primitive types excepted, which serde's
/// own derive cannot do without.
pub mod shadowed {
    #![allow(
        dead_code,
        non_camel_case_types,
        missing_docs,
        reason = "they only stand in the way"
    )]

    pub struct String;
    pub struct Option;
    pub struct Result;
    pub struct Vec;
    pub struct Box;
    pub struct Some;
    pub struct Ok;
    pub struct Err;
    pub trait Clone {}
    pub trait Into {}
    pub trait From {}
    pub trait Debug {}
    pub trait Hash {}
    pub mod core {}
    pub mod std {}
    pub mod serde_json {}

    #[derive(cdb_model::Document, serde::Serialize, serde::Deserialize)]
    #[document(type = "order", id = "{customer}:{number}")]
    #[document(composite(BY_NUMBER = r#type, number), unique(number))]
    pub struct Order {
        #[document(partition_key)]
        pub customer: ::std::string::String,
        #[document(index)]
        pub number: ::core::primitive::u64,
        #[document(index)]
        pub tags: ::std::vec::Vec<::std::string::String>,
        #[document(ttl)]
        #[serde(skip_serializing_if = "::core::option::Option::is_none")]
        pub ttl: ::core::option::Option<::core::primitive::u32>,
        #[document(lease)]
        #[serde(default)]
        pub lease: ::cdb_model::Lease,
    }

    #[derive(cdb_model::Container)]
    #[container(partition_key = "/customer")]
    pub enum Shop {
        Order(Order),
    }

    #[derive(cdb_model::Container)]
    pub enum Larger {
        #[container(extends)]
        Shop(Shop),
    }
}

/// A dependency that re-exports the model, as `cdb-provider` does.
mod provider {
    pub(crate) use cdb_model as model;
}

/// Raw identifiers, a path of its own to the model, private and public fields.
pub mod raw {
    use super::provider;
    use serde::{Deserialize, Serialize};

    /// A document.
    #[derive(provider::model::Document, Serialize, Deserialize)]
    #[document(crate = provider::model, type = "loop", id = "{type}:{match}")]
    #[document(composite(BY_LOOP = r#match, r#loop))]
    pub struct Loop {
        /// The partition.
        #[document(partition_key)]
        pub r#type: String,
        /// Part of the id.
        #[document(index)]
        pub r#match: u32,
        /// Indexed.
        #[document(index)]
        pub r#loop: u32,
        #[document(index)]
        private: Private,
    }

    /// Not visible outside, like the field that holds it.
    #[derive(Serialize, Deserialize, Clone, Copy)]
    struct Private(u8);

    impl Loop {
        pub(super) fn new(r#type: &str) -> Self {
            Self {
                r#type: r#type.to_owned(),
                r#match: 1,
                r#loop: 2,
                private: Private(3),
            }
        }

        pub(super) fn private(&self) -> (&'static str, u8) {
            (Self::PRIVATE.pointer(), self.private.0)
        }
    }

    /// A container.
    #[derive(provider::model::Container)]
    #[container(crate = provider::model, partition_key = "/type", discriminator = "kind")]
    pub enum Loops {
        /// The only type.
        Loop(Loop),
    }
}

/// A document that a macro writes, so that its names come from two places.
macro_rules! document {
    ($name:ident, $key:ident, $field:ident) => {
        /// Made by a macro.
        #[derive(cdb_model::Document, serde::Serialize, serde::Deserialize)]
        #[document(type = "made", id = "{partition}:{number}")]
        pub struct $name {
            /// The partition.
            #[document(partition_key)]
            pub $field: String,
            /// A number.
            pub number: u32,
        }

        /// Also made by it.
        #[derive(cdb_model::Container)]
        #[container(partition_key = "/partition")]
        pub enum $key {
            /// The only type.
            $name($name),
        }
    };
}

/// What the macro makes.
pub mod made {
    document!(Made, Makes, partition);
}

use cdb_model::{Container, Document, DocumentKey};

#[test]
fn shadowed_names_change_nothing() {
    let order = shadowed::Order {
        customer: "c".to_owned(),
        number: 7,
        tags: Vec::new(),
        ttl: None,
        lease: cdb_model::Lease::free(),
    };
    assert_eq!(order.key().to_id().unwrap().as_str(), "c:7");
    assert_eq!(shadowed::Larger::DOCUMENTS.len(), 1);
    let read = shadowed::Larger::decode("order", r#"{"customer":"c","number":7,"tags":[]}"#);
    let shadowed::Larger::Shop(shadowed::Shop::Order(read)) = read.unwrap();
    assert_eq!(read.number, 7);
}

#[test]
fn raw_identifiers_are_stored_without_their_prefix() {
    let document = raw::Loop::new("t");
    assert_eq!(document.key().to_id().unwrap().as_str(), "t:1");
    assert_eq!(raw::Loop::SHAPE.fields[2].path, "/loop");
    assert_eq!(raw::Loop::LOOP.pointer(), "/loop");
    assert_eq!(document.private(), ("/private", 3));
    let raw::Loops::Loop(document) = document.into();
    assert_eq!(document.partition_key().to_header(), r#"["t"]"#);
}

#[test]
fn a_macro_can_write_documents() {
    let made = made::MadeKey::new("p", 3_u32);
    assert_eq!(made.to_id().unwrap().as_str(), "p:3");
    assert_eq!(made::Makes::DOCUMENTS[0].name, "Made");
    let made::Makes::Made(read) =
        made::Makes::decode("made", r#"{"partition":"p","number":3}"#).unwrap();
    assert_eq!(read.key(), made);
}

/// A macro that chooses every setting and every type.
macro_rules! chosen {
    ($name:ident, $kind:literal, $id:literal, $optional:ty, $many:ty, $container:ident, $path:expr, $ttl:expr) => {
        /// Made of what the macro was given.
        #[derive(cdb_model::Document, serde::Serialize, serde::Deserialize)]
        #[document(type = $kind, id = $id)]
        pub struct $name {
            /// The partition.
            #[document(partition_key)]
            pub partition: String,
            /// Many.
            #[document(index)]
            pub many: $many,
            /// Seconds.
            #[document(ttl)]
            #[serde(skip_serializing_if = "Option::is_none")]
            pub ttl: $optional,
        }

        /// Where it is stored.
        #[derive(cdb_model::Container)]
        #[container(partition_key = $path, default_ttl = $ttl)]
        pub enum $container {
            /// The only type.
            $name($name),
        }
    };
}

/// What that macro makes.
pub mod chosen {
    chosen!(
        Chosen,
        "chosen",
        "{partition}:chosen",
        Option<u32>,
        Vec<String>,
        Choices,
        "/partition",
        60
    );
}

#[test]
fn settings_may_come_from_a_macro() {
    assert_eq!(
        chosen::Choices::DEFAULT_TTL,
        cdb_model::DefaultTtl::Seconds(60)
    );
    assert_eq!(chosen::Chosen::SHAPE.fields[1].path, "/many/[]");
    let chosen::Choices::Chosen(read) =
        chosen::Choices::decode("chosen", r#"{"partition":"p","many":[]}"#).unwrap();
    assert_eq!(read.key().to_id().unwrap().as_str(), "p:chosen");
}
