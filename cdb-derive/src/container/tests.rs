//! The derive on plain tokens: what is refused, and what the generated code looks like.

use expect_test::{Expect, expect, expect_file};
use proc_macro2::TokenStream;
use quote::quote;

use super::ContainerModel;
use crate::derived::{derive, mistakes};

/// The diagnostics of an enum, a line each.
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
            variant `Empty` must hold one document type, `Empty(Type)`
            `Again` and `Order` hold the same type; a document type has one variant
            `tenant` is no path; a partition key path starts with `/`, for example `/customerId`
            `id` cannot hold the type; choose a property that the service does not use, without `/`, for example `type`
        "#]],
    );
}

#[test]
fn what_cannot_be_read_is_not_said_to_be_missing() {
    check(
        quote! {
            #[container(partition_key "/tenant")]
            enum Shop {
                Order(),
            }
        },
        &expect![[r"
            expected `,`
            variant `Order` must hold one document type, `Order(Type)`
        "]],
    );
}

#[test]
fn an_expansion_reads_like_code_that_someone_wrote() {
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
