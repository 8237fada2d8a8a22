//! Many documents by their keys.

use std::collections::HashMap;

use cdb_client::ContainerClient;
use cdb_model::operation::BulkBatch;
use cdb_model::{Document as _, PartitionKey};

use crate::account::Account;
use crate::catalog::{Catalog, Numbers, Product, ProductKey, stocked};
use crate::shop::{Order, OrderKey, order};

async fn read(
    catalog: &ContainerClient<Catalog>,
    keys: &[(PartitionKey, ProductKey)],
) -> Vec<Option<Product>> {
    let read = catalog
        .read_many(
            keys.iter()
                .map(|(partition, key)| key.in_partition(partition)),
        )
        .await
        .unwrap();
    read.into_iter()
        .map(|found| Some(found?.document))
        .collect()
}

#[tokio::test]
async fn documents_are_in_the_order_of_their_keys_with_none_for_missing_ones() {
    let account = Account::new().await;
    let (catalog, products) = stocked(&account, 300, 5).await;
    let by_key: HashMap<_, _> = products
        .iter()
        .map(|product| ((product.seller.clone(), product.number), product.clone()))
        .collect();
    for seed in 0..20 {
        let mut random = Numbers(seed);
        let chosen: Vec<(String, u64)> = (0..random.below(80))
            .map(|_| {
                if random.below(4) == 0 {
                    // A number of another seller, or of none.
                    return (format!("seller-{}", random.below(14)), random.below(400));
                }
                let at = usize::try_from(random.below(300)).unwrap();
                (products[at].seller.clone(), products[at].number)
            })
            .collect();
        let keys: Vec<_> = chosen
            .iter()
            .map(|(seller, number)| (PartitionKey::from(&**seller), ProductKey::new(*number)))
            .collect();
        let expected: Vec<_> = chosen.iter().map(|key| by_key.get(key).cloned()).collect();
        assert_eq!(read(&catalog, &keys).await, expected, "seed {seed}");
    }
}

#[tokio::test]
async fn one_request_per_physical_partition_reads_many_documents() {
    let account = Account::new().await;
    let (catalog, products) = stocked(&account, 300, 5).await;
    let ranges = catalog.physical_partitions().await.unwrap().len();
    let keys: Vec<_> = products
        .iter()
        .map(|product| {
            (
                PartitionKey::from(&*product.seller),
                ProductKey::new(product.number),
            )
        })
        .collect();
    let requests = async |keys: &[(PartitionKey, ProductKey)]| {
        let before = account.client.usage();
        let found = read(&catalog, keys).await;
        assert!(found.iter().all(Option::is_some));
        account.client.usage().since(&before).total().requests
    };
    assert_eq!(requests(&keys).await, u64::try_from(ranges).unwrap());
    // A key that is repeated is read once, by a point read.
    assert_eq!(requests(&[keys[0].clone(), keys[0].clone()]).await, 1);
    assert_eq!(requests(&[]).await, 0);
    let seller = &products[0].seller;
    let of_one: Vec<_> = products
        .iter()
        .filter(|product| product.seller == *seller)
        .collect();
    let of_one: Vec<_> = of_one
        .iter()
        .map(|product| ProductKey::new(product.number))
        .collect();
    let before = account.client.usage();
    let partition = PartitionKey::from(&**seller);
    let found = catalog
        .read_many(of_one.iter().map(|key| key.in_partition(&partition)))
        .await
        .unwrap();
    assert!(of_one.len() > 5 && found.iter().all(Option::is_some));
    assert_eq!(account.client.usage().since(&before).total().requests, 1);
}

#[tokio::test]
async fn more_keys_than_one_query_takes_are_divided() {
    let (account, shop) = Account::with_shop().await;
    let orders: Vec<Order> = (0..1_500).map(|number| order("ann", number)).collect();
    let mut bulk = BulkBatch::new();
    for order in &orders {
        bulk.add(order.create()).unwrap();
    }
    assert!(shop.execute_bulk(&bulk).await.iter().all(Result::is_ok));
    let keys: Vec<_> = (0..1_501_u64).map(OrderKey::new).collect();
    let before = account.client.usage();
    let found = shop
        .read_many(keys.iter().map(|key| key.in_partition("ann")))
        .await
        .unwrap();
    let found: Vec<_> = found
        .into_iter()
        .map(|found| Some(found?.document))
        .collect();
    assert_eq!(
        found[..1_500],
        orders.into_iter().map(Some).collect::<Vec<_>>()
    );
    assert_eq!(found[1_500], None);
    if account.emulator().is_some() {
        assert_eq!(account.client.usage().since(&before).total().requests, 2);
    }
}
