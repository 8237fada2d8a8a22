//! The document type as constant data, for the policy, the checks and `explain`.

use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, format_ident, quote};
use syn::Type;
use syn::ext::IdentExt;
use syn::spanned::Spanned;

use super::search;
use crate::document::id_pattern::Segment;
use crate::document::model::{Absent, DocumentModel, FieldModel, Indexing};
use crate::document::path::{PathModel, Source};
use crate::document::role::Role;
use crate::document::value::CompositeSetting;
use crate::input::serde_attr::SerdeDefault;
use crate::output::derived::names;
use crate::output::respan::located_at;

/// A `DocumentShape` literal.
pub(super) fn shape(model: &DocumentModel) -> TokenStream {
    let name = model.ident.to_string();
    let discriminator = &model
        .settings
        .discriminator
        .get()
        .map_or("", |name| &name.0);
    let id = model.pattern.iter().map(|segment| match segment {
        Segment::Literal(text) => quote!(__model::IdSegment::Literal(#text)),
        Segment::Field(field) => quote!(__model::IdSegment::Field(#field)),
    });
    let paths = model.partition_key().into_iter().map(FieldModel::pointer);
    let partition_key = if let Some(FieldModel { ty, .. }) = model.flattened_key() {
        let others = model.fields.iter().filter(|field| field.is_written());
        let others = others.map(FieldModel::pointer);
        let paths = quote!(__model::flattened_key::<#ty>(&[#(#others),*]));
        located_at(ty.span(), paths)
    } else {
        quote!(&[#(#paths),*])
    };
    let paths_of_fields = model.paths();
    let fields = paths_of_fields.iter().map(|path| field_shape(model, path));
    let version = model.settings.version.get().map(|version| version.0);
    let version = version.map(|version| quote!(version: __model::Some(#version),));
    let lists = lists(model);
    let paths = Role::MARKS.into_iter().filter_map(|role| {
        let (field, _) = model.in_role(role).next()?;
        let member = format_ident!("{}", role.rules().member?);
        let path = field.pointer();
        Some(quote!(#member: __model::Some(#path),))
    });
    quote! {
        {
            #[allow(unused_imports, reason = "every type may be ordered, or an option")]
            use __model::{Required as _, Unordered as _};
        __model::DocumentShape {
            name: #name,
            discriminator: #discriminator,
            id: &[#(#id),*],
            partition_key: #partition_key,
            fields: &[#(#fields),*],
            #lists
            #version
            #(#paths)*
            ..__model::DocumentShape::EMPTY
        }
        }
    }
}

/// Returns the members with what the settings declare. Most types declare nothing.
fn lists(model: &DocumentModel) -> TokenStream {
    let settings = &model.settings;
    let composites = settings.composite.iter();
    let composites = composites.map(|composite| composite_shape(model, composite));
    let uniques = settings.unique.iter().map(|unique| {
        let paths = unique.fields.iter().map(|field| target(model, field));
        quote!(&[#(#paths),*])
    });
    let upcasts = settings.upcast.get().into_iter();
    let upcasts = upcasts.flat_map(|upcast| upcast.0.iter().map(ToTokens::to_token_stream));
    let computed = model.computed.iter();
    let computed = computed.map(|computed| search::computed(model, computed));
    let fields = &model.fields;
    [
        list("composites", composites),
        list("unique_keys", uniques),
        list("upcasts", upcasts),
        list("computed", computed),
        list("vectors", fields.iter().filter_map(search::vector)),
        list("full_texts", fields.iter().filter_map(search::full_text)),
    ]
    .into_iter()
    .collect()
}

/// Returns a member of the shape; empty if the list is.
fn list(member: &str, items: impl Iterator<Item = TokenStream>) -> TokenStream {
    let (mut items, member) = (items.peekable(), format_ident!("{member}"));
    let is_given = items.peek().is_some();
    let member = is_given.then(|| quote!(#member: &[#(#items),*],));
    member.unwrap_or_default()
}

/// Returns an entry of the list of fields.
fn field_shape(model: &DocumentModel, path: &PathModel<'_>) -> TokenStream {
    let (name, ty, is_optional) = (path.name, path.ty, path.is_optional);
    let absent = absent(model, path);
    let is_elements = path.is_array() && path.is_indexed();
    let pointer = format!("{}{}", path.pointer, if is_elements { "/[]" } else { "" });
    let ordered = if path.is_indexed() && !path.is_array() {
        quote!(__model::OrderOf::<#ty>::IS_ORDERED)
    } else {
        quote!(false)
    };
    let indexing = match path.indexing {
        Indexing::Indexed => quote!(Indexed),
        Indexing::NotIndexed => quote!(NotIndexed),
        Indexing::Excluded => quote!(Excluded),
    };
    quote! {
        __model::FieldShape {
            name: #name,
            path: #pointer,
            indexing: __model::FieldIndexing::#indexing,
            ordered: #ordered,
            optional: #is_optional,
            absent: #absent,
        }
    }
}

/// Returns what a missing path is read as.
fn absent(model: &DocumentModel, path: &PathModel<'_>) -> TokenStream {
    let ty = path.ty;
    let default = match path.source {
        Source::Field(field) if !mentions_parameter(model, ty) => field.default.as_ref(),
        _ => None,
    };
    let read = |default: &SerdeDefault, ty: TokenStream| match default {
        SerdeDefault::Trait => quote!(<#ty as __model::Default>::default()),
        SerdeDefault::Function(function) => quote!(#function()),
    };
    let value = match (default, path.source) {
        (Some(Absent::Field(default)), _) => read(default, quote!(#ty)),
        (Some(Absent::OfStruct(default)), Source::Field(field)) => {
            let (of_struct, name) = (read(default, quote!(Self)), &field.ident);
            quote!(#of_struct.#name)
        }
        _ => return quote!(__model::AbsentOf::<#ty>::VALUE),
    };
    quote!(__model::Some(|| __model::stored_default::<#ty>(&#value)))
}

/// Whether the default may need a bound that a type parameter lacks.
fn mentions_parameter(model: &DocumentModel, ty: &Type) -> bool {
    let parameters: Vec<_> = model.declared.type_params().collect();
    let is_parameter = |name: &Ident| parameters.iter().any(|known| known.ident == *name);
    names(ty.to_token_stream(), &is_parameter)
}

fn composite_shape(model: &DocumentModel, composite: &CompositeSetting) -> TokenStream {
    let name = composite.name.to_string();
    let paths = composite.paths.iter().map(|path| {
        let target = target(model, &path.field);
        let direction = if path.descending {
            quote!(Descending)
        } else {
            quote!(Ascending)
        };
        quote! {
            __model::CompositePath {
                path: #target,
                direction: __model::Direction::#direction,
            }
        }
    });
    quote!(__model::CompositeShape { name: #name, paths: &[#(#paths),*] })
}

/// Returns the target of a name in a composite or unique key: a field, a computed property, or the
/// discriminator.
fn target(model: &DocumentModel, name: &Ident) -> TokenStream {
    let name = name.unraw().to_string();
    let field = model.field(&name).map(|field| &field.stored);
    let stored = field.or_else(|| model.computed(&name).map(|computed| &computed.stored));
    stored.map_or_else(
        || quote!(__model::CompositeTarget::Discriminator),
        |stored| {
            let path = format!("/{stored}");
            quote!(__model::CompositeTarget::Path(#path))
        },
    )
}
