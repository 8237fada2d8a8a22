//! The derive on plain tokens: its diagnostics and its generated code.

use expect_test::{Expect, expect, expect_file};
use proc_macro2::TokenStream;
use quote::quote;

use super::ContainerModel;
use crate::derived::{derive, mistakes};

/// Compares the diagnostics of an enum, one per line.
fn check(input: TokenStream, expected: &Expect) {
    expected.assert_eq(&mistakes::<ContainerModel>(input));
}

#[test]
fn an_enum_without_mistakes_is_accepted() {
    check(
        quote! {
            #[container(partition_key = "/tenantId, /userId", discriminator = "kind", default_ttl = 3600)]
            enum Shop {
                Order(Order),
                Refund(crate::refund::Refund),
            }
        },
        &expect![""],
    );
    check(
        quote! {
            #[container(default_ttl = "per_document")]
            enum Larger {
                #[container(extends)]
                Shop(Shop),
            }
        },
        &expect![""],
    );
}

#[test]
fn mistakes_in_different_places_are_reported_together() {
    check(
        quote! {
            #[container(partition_key = "tenant", discriminator = "id", default_ttl = "never", default_ttl = 1)]
            enum Shop {
                Order(Order),
                #[container(extend)]
                Durable(Durable),
                Again(Order),
                Empty,
            }
        },
        &expect![[r#"
            `default_ttl` is `"off"`, `"per_document"`, or a number of seconds from 1
            `default_ttl` is given twice
            unknown setting `extend`; did you mean `extends`?
            variant `Empty` must contain one document type, `Empty(Type)`
            `Again` and `Order` contain the same type; a document type has one variant
            `tenant` is not a path; a partition key path starts with `/`, for example `/customerId`
            `id` cannot be the discriminator; use a property that neither the service nor the model reserves, without `/`, `\`, `~` and quotation marks, for example `type`
        "#]],
    );
}

#[test]
fn nothing_is_reported_missing_when_an_attribute_cannot_be_parsed() {
    check(
        quote! {
            #[container(partition_key "/tenant")]
            enum Shop {
                Order(),
            }
        },
        &expect![[r"
            expected `,`
            variant `Order` must contain one document type, `Order(Type)`
        "]],
    );
}

#[test]
fn the_generated_code_is_as_expected() {
    let expansion = derive::<ContainerModel>(quote! {
        pub enum LargerShop {
            #[container(extends)]
            Shop(Shop),
            Refund(Refund),
        }
    });
    let file = syn::parse2(expansion).expect("generated code is Rust");
    expect_file!["../../expansions/container.rs"].assert_eq(&prettyplease::unparse(&file));
}
