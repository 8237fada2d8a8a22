//! Conditions on strings and arrays, compared with the same conditions in Rust.

use cdb_client::ContainerClient;
use cdb_model::Query;
use cdb_model::query::Filter;

use crate::account::Account;
use crate::catalog::{Catalog, Numbers, Product, WORDS, stocked};

type Holds = Box<dyn Fn(&Product) -> bool>;

/// Returns the condition that there is no category, or one.
fn presence(is_none: bool) -> (Filter<Product>, Holds) {
    let filter = if is_none {
        Product::CATEGORY.is_none()
    } else {
        Product::CATEGORY.is_some()
    };
    (filter, Box::new(move |p| p.category.is_none() == is_none))
}

/// Returns a generated condition, as a filter and in Rust.
fn condition(random: &mut Numbers) -> (Filter<Product>, Holds) {
    let word = random.one_of(&WORDS).to_owned();
    let other = random.one_of(&WORDS).to_owned();
    let lower = word.to_lowercase();
    let (title, tags) = (Product::TITLE, Product::TAGS);
    match random.below(13) {
        0 => (
            title.contains(&*word),
            Box::new(move |p| p.title.contains(&word)),
        ),
        1 => (
            title.ends_with(&word),
            Box::new(move |p| p.title.ends_with(&word)),
        ),
        2 => (
            title.starts_with(&word),
            Box::new(move |p| p.title.starts_with(&word)),
        ),
        3 => (
            title.contains_ignore_case(&word),
            Box::new(move |p| p.title.to_lowercase().contains(&lower)),
        ),
        4 => (
            title.ends_with_ignore_case(&word),
            Box::new(move |p| p.title.to_lowercase().ends_with(&lower)),
        ),
        5 => (
            title.starts_with_ignore_case(&word),
            Box::new(move |p| p.title.to_lowercase().starts_with(&lower)),
        ),
        6 => (
            Product::CATEGORY.eq_ignore_case(&word),
            Box::new(move |p| {
                p.category
                    .as_ref()
                    .is_some_and(|c| c.to_lowercase() == lower)
            }),
        ),
        7 => (
            Product::CATEGORY.contains(&*word),
            Box::new(move |p| p.category.as_ref().is_some_and(|c| c.contains(&word))),
        ),
        8 => (
            tags.contains(&*word),
            Box::new(move |p| p.tags.contains(&word)),
        ),
        9 => (
            tags.contains_any([&*word, &*other]),
            Box::new(move |p| p.tags.contains(&word) || p.tags.contains(&other)),
        ),
        10 => (
            tags.contains_all([&*word, &*other]),
            Box::new(move |p| p.tags.contains(&word) && p.tags.contains(&other)),
        ),
        11 => presence(random.chance()),
        _ => (
            tags.contains_any(<[&str; 0]>::default()) | tags.contains_all(["blue"]),
            Box::new(|p| p.tags.iter().any(|tag| tag == "blue")),
        ),
    }
}

async fn numbers(catalog: &ContainerClient<Catalog>, filter: Filter<Product>) -> Vec<u64> {
    let query = Query::<Product>::across_partitions().filter(filter);
    let numbers = catalog.query(query.values(Product::NUMBER));
    let mut numbers = numbers.all().await.unwrap();
    numbers.sort_unstable();
    numbers
}

#[tokio::test]
async fn conditions_on_strings_and_arrays_hold_as_in_rust() {
    let account = Account::new().await;
    let (catalog, products) = stocked(&account, 200, 21).await;
    let mut found = 0;
    for seed in 0..150 {
        let mut random = Numbers(seed);
        let (left, holds_left) = condition(&mut random);
        let (right, holds_right) = condition(&mut random);
        let (filter, holds): (_, Holds) = match random.below(4) {
            0 => (
                left & right,
                Box::new(move |p| holds_left(p) && holds_right(p)),
            ),
            1 => (
                left | right,
                Box::new(move |p| holds_left(p) || holds_right(p)),
            ),
            _ => (left, holds_left),
        };
        let expected = products.iter().filter(|product| holds(product));
        let expected: Vec<u64> = expected.map(|product| product.number).collect();
        found += expected.len();
        let text = format!("seed {seed}: {filter:?}");
        assert_eq!(numbers(&catalog, filter).await, expected, "{text}");
    }
    assert!((1_000..25_000).contains(&found), "{found}");
}
