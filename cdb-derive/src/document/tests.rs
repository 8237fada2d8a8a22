//! The derive on plain tokens: its diagnostics and its generated code.

use expect_test::{Expect, expect, expect_file};
use proc_macro2::TokenStream;
use quote::quote;

use super::DocumentModel;
use crate::output::derived::{derive, mistakes};

/// Compares the diagnostics of a struct, one per line.
fn check(input: TokenStream, expected: &Expect) {
    expected.assert_eq(&mistakes::<DocumentModel>(input));
}

#[test]
fn mistakes_in_different_places_are_reported_together() {
    check(
        quote! {
            #[document(type = 3, id = "{numbr}-{line}", composit(A = b, c))]
            #[serde(deny_unknown_fields, transparent)]
            struct Order {
                #[document(partition_key(0))]
                customer: String,
                #[serde(flatten)]
                number: Rest,
                #[document(index, index)]
                line: u32,
            }
        },
        &expect![[r#"
            `type` takes a string, for example `type = "order"`
            unknown setting `composit`; did you mean `composite`?
            `deny_unknown_fields` would refuse the properties that the service adds to every document; remove it
            `transparent` changes which paths are stored; remove it from a document
            a partition key has the levels 1, 2 and 3
            `index` is given twice
            `{numbr}` must be followed by a separator, one of : | ; , instead of `-`
            `{numbr}` is not a field of `Order`; did you mean `{number}`?
            `flatten` hides which paths are stored; spell the fields out, put them under one field, or mark a partition key with `#[document(partition_key)]`
        "#]],
    );
}

#[test]
fn nothing_is_reported_missing_when_an_attribute_cannot_be_parsed() {
    check(
        quote! {
            #[document(type = "order" id = "{customer}")]
            struct Order {
                #[document(partition_key = )]
                customer: String,
            }
        },
        &expect![[r"
            expected `,`
            unexpected end of input, expected an expression
        "]],
    );
}

#[test]
fn a_literal_is_not_a_setting() {
    check(
        quote! {
            #[document(type = "order", id = "order", "index")]
            struct Order {
                #[document(partition_key)]
                customer: String,
            }
        },
        &expect![[r"
            a setting of `document` starts with its name, such as `type`
        "]],
    );
}

#[test]
fn stored_names_are_those_of_serde() {
    check(
        quote! {
            #[serde(rename_all(serialize = "kebab-case", deserialize = "kebab-case"))]
            #[document(type = "order", id = "order")]
            struct Order {
                #[document(partition_key)]
                #[serde(rename(serialize = "a", deserialize = "a"))]
                customer: String,
                #[serde(rename = "net-total")]
                net: u64,
                net_total: u64,
                #[serde(rename = "a")]
                other: u64,
                r#type: String,
                #[serde(rename = "type")]
                kind: String,
            }
        },
        &expect![[r"
            `net` and `net_total` are both stored as `net-total`
            `customer` and `other` are both stored as `a`
            `type` and `kind` are both stored as `type`
        "]],
    );
}

#[test]
fn composites_and_unique_keys_have_limits() {
    let fields: Vec<_> = (0..17)
        .map(|number| quote::format_ident!("f{number}"))
        .collect();
    let nine = &fields[..9];
    check(
        quote! {
            #[document(type = "order", id = "order", composite(ALL = #(#nine),*), unique(#(#fields),*))]
            struct Order {
                #[document(partition_key)]
                customer: String,
                #(#[document(index)] #fields: u64,)*
            }
        },
        &expect![[r"
            composite `ALL` needs 2 to 8 paths; it has 9
            a unique key needs 1 to 16 fields; this one has 17
        "]],
    );
}

#[test]
fn the_generated_code_is_as_expected() {
    let expansion = derive::<DocumentModel>(quote! {
        #[serde(rename_all = "camelCase")]
        #[document(type = "order", id = "{customer_id}:order:{number}")]
        #[document(composite(BY_TOTAL = r#type, total_cents desc))]
        pub struct Order {
            #[document(partition_key)]
            pub customer_id: String,
            pub number: u64,
            #[document(index)]
            pub total_cents: u64,
            #[document(unindexed)]
            pub remark: Option<String>,
        }
    });
    let file = syn::parse2(expansion).expect("generated code is Rust");
    expect_file!["../../expansions/document.rs"].assert_eq(&prettyplease::unparse(&file));
}
