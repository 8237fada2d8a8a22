//! The document type as constant data, for the policy, the checks and `explain`.

use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, format_ident, quote};
use syn::Type;
use syn::ext::IdentExt;
use syn::spanned::Spanned;

use super::search;
use crate::document::model::{ComputedModel, DocumentModel, FieldModel, Indexing};
use crate::document::role::Role;
use crate::document::value::CompositeSetting;
use crate::id_pattern::Segment;
use crate::respan::located_at;

/// A `DocumentShape` literal.
pub(super) struct Shape<'a>(pub(super) &'a DocumentModel);

impl ToTokens for Shape<'_> {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        let model = self.0;
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
        let fields = model.fields.iter().filter(|field| field.has_path());
        let fields = fields.flat_map(field_shapes);
        let fields = fields.chain(model.computed.iter().map(computed_shape));
        let version = model.settings.version.get().map(|version| version.0);
        let version = version.map(|version| quote!(version: __model::Some(#version),));
        let lists = lists(model);
        let paths = Role::MARKS.into_iter().filter_map(|role| {
            let (field, _) = model.in_role(role).next()?;
            let member = format_ident!("{}", role.rules().member?);
            let path = field.pointer();
            Some(quote!(#member: __model::Some(#path),))
        });
        tokens.extend(quote! {
            {
                #[allow(unused_imports, reason = "every type may be ordered")]
                use __model::Unordered as _;
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
        });
    }
}

/// Returns the members with what the settings declare. Most types declare nothing.
fn lists(model: &DocumentModel) -> TokenStream {
    let composites = model.settings.composite.iter();
    let uniques = model.settings.unique.iter().map(|unique| {
        let paths = unique.fields.iter().map(|field| target(model, field));
        quote!(&[#(#paths),*])
    });
    let computed = model.computed.iter();
    let upcasts = model.settings.upcast.get().into_iter();
    let upcasts = upcasts.flat_map(|upcast| &upcast.0);
    let lists: [(&str, Vec<TokenStream>); 6] = [
        (
            "composites",
            composites
                .map(|composite| composite_shape(model, composite))
                .collect(),
        ),
        ("unique_keys", uniques.collect()),
        ("upcasts", upcasts.map(|upcast| quote!(#upcast)).collect()),
        (
            "computed",
            computed
                .map(|computed| search::computed(model, computed))
                .collect(),
        ),
        (
            "vectors",
            model.fields.iter().filter_map(search::vector).collect(),
        ),
        (
            "full_texts",
            model.fields.iter().filter_map(search::full_text).collect(),
        ),
    ];
    let lists = lists.iter().filter(|(_, items)| !items.is_empty());
    let lists = lists.map(|(member, items)| {
        let member = format_ident!("{member}");
        quote!(#member: &[#(#items),*],)
    });
    lists.collect()
}

/// Returns the entries of a field and of its nested fields in the list of fields.
fn field_shapes(field: &FieldModel) -> Vec<TokenStream> {
    let elements = if field.is_array && field.indexing == Indexing::Indexed {
        "/[]"
    } else {
        ""
    };
    let path = format!("/{}{elements}", field.stored);
    let optional =
        field.is_option || field.may_be_absent || field.serde.skip_serializing_if.is_some();
    let single = (!field.is_array).then_some(&field.ty);
    let own = field_shape((&field.name, &path), single, field.indexing, optional);
    let nested = field.nested.iter().map(|nested| {
        let ty = Some(&nested.ty);
        field_shape(
            (&nested.name, &nested.path),
            ty,
            indexing(nested.indexed),
            true,
        )
    });
    std::iter::once(own).chain(nested).collect()
}

/// Returns the entry of a computed property in the list of fields.
fn computed_shape(computed: &ComputedModel) -> TokenStream {
    let path = format!("/{}", computed.stored);
    let ty = Some(&computed.ty);
    field_shape(
        (&computed.name, &path),
        ty,
        indexing(computed.indexed),
        true,
    )
}

fn indexing(indexed: bool) -> Indexing {
    if indexed {
        Indexing::Indexed
    } else {
        Indexing::NotIndexed
    }
}

/// Returns an entry of the list of fields. `ty` is the type of its single value.
fn field_shape(
    (name, path): (&str, &str),
    ty: Option<&Type>,
    indexing: Indexing,
    optional: bool,
) -> TokenStream {
    let ty = ty.filter(|_| indexing == Indexing::Indexed);
    let ordered = ty.map_or(
        quote!(false),
        |ty| quote!(__model::OrderOf::<#ty>::IS_ORDERED),
    );
    let indexing = match indexing {
        Indexing::Indexed => quote!(Indexed),
        Indexing::NotIndexed => quote!(NotIndexed),
        Indexing::Excluded => quote!(Excluded),
    };
    quote! {
        __model::FieldShape {
            name: #name,
            path: #path,
            indexing: __model::FieldIndexing::#indexing,
            ordered: #ordered,
            optional: #optional,
        }
    }
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
