//! Projections, aggregates, groups and distinct values, compared with the same computation in Rust.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Add as _;

use cdb_model::query::aggregate::Aggregate;
use cdb_model::{Projection, Query};
use serde::Deserialize;

use crate::account::Account;
use crate::catalog::{Product, stocked};

/// A scope and a filter: all products, those of one seller, the cheap ones, none.
type Case = (Query<Product>, fn(&Product) -> bool);

fn cases() -> Vec<Case> {
    let cheap = Query::<Product>::across_partitions().filter(Product::PRICE_CENTS.lt(100_u64));
    let none = Query::<Product>::across_partitions().filter(Product::PRICE_CENTS.gt(5_000_u64));
    vec![
        (Query::across_partitions(), |_| true),
        (Query::in_partition("seller-3"), |product| {
            product.seller == "seller-3"
        }),
        (Query::in_partition("unknown"), |_| false),
        (cheap, |product| product.price_cents < 100),
        (none, |_| false),
    ]
}

fn chosen<'a>(products: &'a [Product], of: &dyn Fn(&Product) -> bool) -> Vec<&'a Product> {
    products.iter().filter(|product| of(product)).collect()
}

fn average(values: impl Iterator<Item = f64>) -> Option<f64> {
    let values: Vec<f64> = values.collect();
    let count = u32::try_from(values.len()).unwrap();
    (count > 0).then(|| values.iter().sum::<f64>() / f64::from(count))
}

#[tokio::test]
async fn aggregates_equal_the_computation_over_all_documents() {
    let account = Account::new().await;
    for seed in 0..3 {
        let (catalog, products) = stocked(&account, 300, seed).await;
        for (query, of) in cases() {
            let chosen = chosen(&products, &of);
            let all = query.clone().aggregate((
                Aggregate::count(),
                Product::PRICE_CENTS.sum(),
                Product::WEIGHT.sum(),
                Product::STOCK_CHANGE.min(),
                Product::TITLE.max(),
                Product::WEIGHT.avg(),
            ));
            let (count, cents, weight, change, title, weights) = ok!(catalog.query(all).one());
            let products = || chosen.iter();
            assert_eq!(count, u64::try_from(chosen.len()).unwrap(), "seed {seed}");
            assert_eq!(cents, products().map(|p| p.price_cents).sum::<u64>());
            // `sum` of no floats is -0.
            let sum = products().map(|p| p.weight).fold(0.0, f64::add);
            assert_eq!(weight.to_bits(), sum.to_bits(), "{weight} {sum}");
            assert_eq!(change, products().map(|p| p.stock_change).min());
            assert_eq!(title.as_ref(), products().map(|p| &p.title).max());
            assert_eq!(weights, average(products().map(|p| p.weight)));
        }
        catalog.delete_container().await.unwrap();
    }
}

#[tokio::test]
async fn aggregates_ignore_null_and_missing_values() {
    let account = Account::new().await;
    let (catalog, products) = stocked(&account, 200, 7).await;
    for (query, of) in cases() {
        let chosen = chosen(&products, &of);
        let all = query.clone().aggregate((
            Product::RATING.sum(),
            Product::RATING.avg(),
            Product::RATING.min(),
            Product::DISCOUNT.sum(),
            Product::DISCOUNT.avg(),
            Product::CATEGORY.min(),
        ));
        let ratings = || chosen.iter().filter_map(|p| p.rating);
        let discounts = || chosen.iter().filter_map(|p| p.discount);
        #[expect(clippy::cast_precision_loss, reason = "small numbers")]
        let expected = (
            ratings().map(u64::from).sum(),
            average(ratings().map(f64::from)),
            ratings().min(),
            discounts().sum(),
            average(discounts().map(|discount| discount as f64)),
            chosen.iter().filter_map(|p| p.category.clone()).min(),
        );
        assert_eq!(catalog.query(all).one().await.unwrap(), expected);
    }
}

#[tokio::test]
async fn groups_and_distinct_values_of_all_partitions_are_merged_and_sorted() {
    let account = Account::new().await;
    for seed in 0..3 {
        let (catalog, products) = stocked(&account, 300, seed).await;
        for (query, of) in cases() {
            let chosen = chosen(&products, &of);
            let mut by_category = BTreeMap::<_, (u64, i64, Option<u64>)>::new();
            let mut by_two = BTreeMap::<_, u64>::new();
            for product in &chosen {
                let group = by_category.entry(product.category.clone()).or_default();
                *group = (
                    group.0 + 1,
                    group.1 + product.discount.unwrap_or_default(),
                    group.2.max(Some(product.price_cents)),
                );
                let keys = (product.rating, product.origin.city.clone());
                *by_two.entry(keys).or_default() += product.price_cents;
            }
            let grouped = query.clone().group_by(Product::CATEGORY).aggregate((
                Aggregate::count(),
                Product::DISCOUNT.sum(),
                Product::PRICE_CENTS.max(),
            ));
            let rows = catalog.query(grouped).page_size(3).all().await.unwrap();
            assert_eq!(
                rows,
                by_category.into_iter().collect::<Vec<_>>(),
                "seed {seed}"
            );

            let two = query
                .clone()
                .group_by((Product::RATING, Product::ORIGIN_CITY));
            let rows = ok!(catalog.query(two.sum(Product::PRICE_CENTS)).all());
            assert_eq!(rows, by_two.into_iter().collect::<Vec<_>>(), "seed {seed}");

            let titles = catalog.query(query.clone().distinct(Product::TITLE));
            let expected: BTreeSet<String> = chosen.iter().map(|p| p.title.clone()).collect();
            assert_eq!(titles.all().await.unwrap(), Vec::from_iter(expected));

            // A missing discount and a rating of null are both `None`.
            let pairs = catalog.query(query.distinct((Product::DISCOUNT, Product::RATING)));
            let expected: BTreeSet<_> = chosen.iter().map(|p| (p.discount, p.rating)).collect();
            assert_eq!(pairs.all().await.unwrap(), Vec::from_iter(expected));
        }
        catalog.delete_container().await.unwrap();
    }
}

#[tokio::test]
async fn an_aggregate_across_partitions_costs_one_request_per_physical_partition() {
    let account = Account::new().await;
    let (catalog, products) = stocked(&account, 100, 1).await;
    let ranges = catalog.physical_partitions().await.unwrap().len();
    let before = account.client.usage();
    let grouped = Query::<Product>::across_partitions().group_by(Product::SELLER);
    let rows = catalog.query(grouped.count()).all().await.unwrap();
    assert_eq!(rows.iter().map(|(_, count)| count).sum::<u64>(), 100);
    let sellers: BTreeSet<&String> = products.iter().map(|p| &p.seller).collect();
    assert_eq!(rows.len(), sellers.len());
    let requests = account.client.usage().since(&before).total().requests;
    assert_eq!(requests, u64::try_from(ranges).unwrap());
}

/// Some fields of a product, under names of its own.
#[derive(Projection, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "SCREAMING-KEBAB-CASE")]
#[projection(of = Product)]
struct Listed {
    number: u64,
    #[serde(rename = "name \"of\" the product")]
    title: String,
    rating: Option<u32>,
    discount: Option<i64>,
    price_cents: u64,
    #[projection(path = ORIGIN_CITY)]
    city: String,
    tags: Vec<String>,
}

fn listed(product: &Product) -> Listed {
    Listed {
        number: product.number,
        title: product.title.clone(),
        rating: product.rating,
        discount: product.discount,
        price_cents: product.price_cents,
        city: product.origin.city.clone(),
        tags: product.tags.clone(),
    }
}

#[tokio::test]
async fn a_projection_reads_its_fields_in_the_order_of_the_query() {
    let account = Account::new().await;
    let (catalog, products) = stocked(&account, 200, 11).await;
    for (query, of) in cases() {
        let selected = query
            .order_by(Product::PRICE_CENTS.desc())
            .select::<Listed>();
        let rows = catalog.query(selected).page_size(9).all().await.unwrap();
        let prices = rows.iter().map(|row| row.price_cents);
        assert!(prices.is_sorted_by(|a, b| a >= b));
        let mut rows = rows;
        rows.sort_by_key(|row| row.number);
        let expected: Vec<Listed> = chosen(&products, &of).into_iter().map(listed).collect();
        assert_eq!(rows, expected);
    }
}
