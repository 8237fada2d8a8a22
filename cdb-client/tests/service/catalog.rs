//! Generated documents with fields of all kinds, to compare queries with the same computation in
//! Rust.

use std::collections::BTreeMap;

use cdb_client::ContainerClient;
use cdb_model::operation::BulkBatch;
use cdb_model::{Container, Document};
use serde::{Deserialize, Serialize};

use crate::account::Account;

#[derive(Document, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
#[document(type = "product", id = "product:{number}")]
pub(crate) struct Product {
    #[document(partition_key)]
    pub(crate) seller: String,
    pub(crate) number: u64,
    #[document(index)]
    pub(crate) title: String,
    #[document(index)]
    pub(crate) category: Option<String>,
    #[document(index)]
    pub(crate) price_cents: u64,
    pub(crate) weight: f64,
    pub(crate) stock_change: i64,
    pub(crate) stock: BTreeMap<String, i64>,
    /// Null if there is none.
    pub(crate) rating: Option<u32>,
    /// Missing if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) discount: Option<i64>,
    #[document(index)]
    pub(crate) tags: Vec<String>,
    #[document(index(city: String), paths(batches: Vec<u32>))]
    pub(crate) origin: Origin,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) former_category: Option<String>,
    pub(crate) description: String,
}

#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
pub(crate) struct Origin {
    pub(crate) city: String,
    pub(crate) batches: Vec<u32>,
}

/// Other documents, which no query for products may return.
#[derive(Document, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
#[document(type = "seller", id = "seller")]
pub(crate) struct Seller {
    #[document(partition_key)]
    pub(crate) seller: String,
    pub(crate) price_cents: u64,
}

#[derive(Container, Clone, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "there are few values of the enum"
)]
pub(crate) enum Catalog {
    Product(Product),
    Seller(Seller),
}

/// A generator of numbers (`SplitMix64`), so that a failure can be repeated with its seed.
#[derive(Debug)]
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % limit
    }

    pub(crate) fn one_of<'a>(&mut self, words: &[&'a str]) -> &'a str {
        let at = self.below(u64::try_from(words.len()).unwrap());
        words[usize::try_from(at).unwrap()]
    }

    pub(crate) fn chance(&mut self) -> bool {
        self.below(3) > 0
    }
}

pub(crate) const WORDS: [&str; 8] = ["red", "Red", "redden", "äther", "ÄTHER", "x\"y", "", "blue"];

pub(crate) fn product(number: u64, random: &mut Numbers) -> Product {
    let word = |random: &mut Numbers| random.one_of(&WORDS).to_owned();
    let title = format!("{}{}", word(random), word(random));
    let tags = random.below(4);
    Product {
        seller: format!("seller-{}", random.below(12)),
        number,
        title,
        category: random.chance().then(|| word(random)),
        price_cents: random.below(1_000),
        // Multiples of a quarter are summed without rounding, in any order.
        weight: f64::from(u32::try_from(random.below(4_000)).unwrap()) / 4.0,
        stock: BTreeMap::new(),
        stock_change: i64::try_from(random.below(200)).unwrap() - 100,
        rating: random
            .chance()
            .then(|| u32::try_from(random.below(5)).unwrap()),
        discount: random
            .chance()
            .then(|| i64::try_from(random.below(50)).unwrap() - 25),
        tags: (0..tags).map(|_| word(random)).collect(),
        origin: Origin {
            city: word(random),
            batches: (0..random.below(3))
                .map(|at| u32::try_from(at).unwrap())
                .collect(),
        },
        former_category: None,
        description: "a description that a list does not show ".repeat(50),
    }
}

/// Returns a container with these products and one other document per seller.
pub(crate) async fn stocked(
    account: &Account,
    products: u64,
    seed: u64,
) -> (ContainerClient<Catalog>, Vec<Product>) {
    let catalog: ContainerClient<Catalog> = account.open("catalog").await;
    let mut random = Numbers(seed);
    let products: Vec<Product> = (0..products)
        .map(|number| product(number, &mut random))
        .collect();
    let mut bulk = BulkBatch::<Catalog>::new();
    for product in &products {
        bulk.add(product.create()).unwrap();
    }
    for seller in 0..12 {
        let seller = format!("seller-{seller}");
        bulk.add(
            Seller {
                seller,
                price_cents: 1_000_000,
            }
            .create(),
        )
        .unwrap();
    }
    assert!(catalog.execute_bulk(&bulk).await.iter().all(Result::is_ok));
    (catalog, products)
}
