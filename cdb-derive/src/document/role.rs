//! The roles of fields: what the service or the model uses a field for. A setting of the field
//! declares its role, and [`Role::rules`] is the table of what follows from it.
//!
//! A new role is a variant with a row, a word in `attr`, a member of the model's `DocumentShape`,
//! and the check of its type in `codegen_support`.

use darling::FromMeta;
use darling::error::Accumulator;
use proc_macro2::Span;
use syn::spanned::Spanned;

use crate::input::settings::{Mark, Take, Word, given_twice};

/// The role of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Ttl,
    Lease,
    /// The field keeps the fields of newer versions.
    Unknown,
    SoftDelete,
    CreatedAt,
    UpdatedAt,
    Vector,
    FullText,
}

/// What follows from a role.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    /// The setting.
    pub(super) word: &'static str,
    /// What the field is, for diagnostics and documentation.
    pub(super) meaning: &'static str,
    /// Whether every document stores the field.
    pub(super) is_always_stored: bool,
    /// Whether writes set the field, so that patches must not.
    pub(super) is_set_by_writes: bool,
    /// Whether the role determines the index of the field.
    pub(super) has_own_index: bool,
    /// The member of the model's `DocumentShape` with the path of the field.
    pub(super) member: Option<&'static str>,
    /// The function of the model that compiles for the types that fit the role.
    pub(super) type_check: Option<&'static str>,
}

const RULES: Rules = Rules {
    word: "",
    meaning: "",
    is_always_stored: false,
    is_set_by_writes: false,
    has_own_index: false,
    member: None,
    type_check: None,
};

impl Role {
    /// The roles whose settings have no value. A document has at most one field with each.
    pub(super) const MARKS: [Self; 6] = [
        Self::Ttl,
        Self::Lease,
        Self::Unknown,
        Self::SoftDelete,
        Self::CreatedAt,
        Self::UpdatedAt,
    ];

    pub(super) fn rules(self) -> Rules {
        match self {
            Self::Ttl => Rules {
                word: "ttl",
                meaning: "the time to live",
                member: Some("ttl"),
                type_check: Some("is_time_to_live"),
                ..RULES
            },
            Self::Lease => Rules {
                word: "lease",
                meaning: "the lease",
                is_always_stored: true,
                has_own_index: true,
                ..RULES
            },
            Self::Unknown => Rules {
                word: "unknown",
                meaning: "the field for unknown fields",
                type_check: Some("keeps_unknown_fields"),
                ..RULES
            },
            Self::SoftDelete => Rules {
                word: "soft_delete",
                meaning: "the time of the soft deletion",
                has_own_index: true,
                member: Some("soft_delete"),
                type_check: Some("is_time_of_deletion"),
                ..RULES
            },
            Self::CreatedAt => Rules {
                word: "created_at",
                meaning: "the time of creation",
                is_set_by_writes: true,
                member: Some("created_at"),
                type_check: Some("is_time_of_write"),
                ..RULES
            },
            Self::UpdatedAt => Rules {
                word: "updated_at",
                meaning: "the time of the last write",
                is_set_by_writes: true,
                member: Some("updated_at"),
                type_check: Some("is_time_of_write"),
                ..RULES
            },
            Self::Vector => Rules {
                word: "vector",
                meaning: "searched",
                has_own_index: true,
                ..RULES
            },
            Self::FullText => Rules {
                word: "full_text",
                meaning: "searched",
                type_check: Some("is_full_text"),
                ..RULES
            },
        }
    }
}

/// The marks of a field, each with its span.
#[derive(Debug, Default)]
pub(super) struct Marks(pub(super) Vec<(Role, Span)>);

impl Take for Marks {
    fn take(&mut self, word: &Word<'_>, errors: &mut Accumulator) {
        let mut roles = Role::MARKS.into_iter();
        let Some(role) = roles.find(|role| role.rules().word == word.name) else {
            return;
        };
        let span = word.meta.path().span();
        if self.0.iter().any(|(known, _)| *known == role) {
            errors.push(given_twice(word));
        } else if errors.handle(Mark::from_meta(word.meta)).is_some() {
            self.0.push((role, span));
        }
    }
}
