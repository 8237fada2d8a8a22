//! The derive on plain tokens: its diagnostics and its generated code.

use expect_test::{Expect, expect, expect_file};
use proc_macro2::TokenStream;
use quote::quote;

use super::ContainerModel;
use crate::output::derived::{derive, mistakes};

/// Compares the diagnostics of an enum, one per line.
fn check(input: TokenStream, expected: &Expect) {
    expected.assert_eq(&mistakes::<ContainerModel>(input));
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
fn the_partition_key_is_given_if_each_type_takes_it_from_the_container() {
    check(
        quote! {
            enum Shop {
                Message(Message<Shop>),
                Receipt(Box<Receipt<Self>>),
            }
        },
        &expect![[r#"
            the types of `Shop` take their partition key from `Shop`; add `#[container(partition_key = "/…")]` with its path
        "#]],
    );
    check(
        quote! {
            enum Shop {
                Message(Message<Shop>),
                Order(Order),
            }
        },
        &expect![[r""]],
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
