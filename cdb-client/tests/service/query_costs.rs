//! The measured charges in `docs/queries.md`.

use cdb_client::ContainerClient;
use cdb_model::query::aggregate::Aggregate;
use cdb_model::{Document, PartitionKey, Patch, Projection, Query};
use serde::Deserialize;

use crate::account::Account;
use crate::catalog::{Catalog, Product, ProductKey, stocked};

#[derive(Projection, Deserialize)]
#[projection(of = Product)]
#[serde(rename_all = "camelCase")]
struct Price {
    #[expect(dead_code, reason = "only its size counts")]
    number: u64,
    #[expect(dead_code, reason = "only its size counts")]
    price_cents: u64,
}

/// The lines of the table, and the usage that the next line starts from.
struct Costs<'a> {
    account: &'a Account,
    catalog: &'a ContainerClient<Catalog>,
    lines: Vec<String>,
}

impl Costs<'_> {
    async fn add<T>(&mut self, what: &str, does: impl AsyncFnOnce(&ContainerClient<Catalog>) -> T) {
        let before = self.account.client.usage();
        does(self.catalog).await;
        let used = self.account.client.usage().since(&before).total();
        let (requests, charge, bytes) = (used.requests, used.charge, used.bytes_received);
        let kilobytes = bytes.div_ceil(1_000);
        self.lines.push(format!(
            "| {what} | {requests} | {charge:.1} | {kilobytes} |"
        ));
    }
}

async fn measure_aggregates(costs: &mut Costs<'_>) {
    let all = Query::<Product>::across_partitions;
    let one = || Query::<Product>::in_partition("seller-3");
    costs
        .add("all documents", async |c| {
            c.query(all()).all().await.unwrap()
        })
        .await;
    costs
        .add("all, as a projection of two fields", async |c| {
            c.query(all().select::<Price>()).all().await.unwrap()
        })
        .await;
    costs
        .add("`count` of all", async |c| {
            c.query(all().count()).one().await.unwrap()
        })
        .await;
    costs
        .add("`sum` of all", async |c| {
            c.query(all().sum(Product::PRICE_CENTS))
                .one()
                .await
                .unwrap()
        })
        .await;
    let both = (Aggregate::count(), Product::PRICE_CENTS.avg());
    let groups = all().group_by(Product::CATEGORY).aggregate(both);
    costs
        .add("`count` and `avg` of all, in 9 groups", async |c| {
            c.query(groups).all().await.unwrap()
        })
        .await;
    costs
        .add("`distinct` values of all", async |c| {
            c.query(all().distinct(Product::CATEGORY))
                .all()
                .await
                .unwrap()
        })
        .await;
    costs
        .add("documents of one partition", async |c| {
            c.query(one()).all().await.unwrap()
        })
        .await;
    costs
        .add("one partition, as a projection", async |c| {
            c.query(one().select::<Price>()).all().await.unwrap()
        })
        .await;
    costs
        .add("`max` of one partition", async |c| {
            c.query(one().max(Product::PRICE_CENTS))
                .one()
                .await
                .unwrap()
        })
        .await;
}

async fn measure_keys(costs: &mut Costs<'_>, products: &[Product]) {
    let keys: Vec<_> = products
        .iter()
        .take(100)
        .map(|product| {
            (
                PartitionKey::from(&*product.seller),
                ProductKey::new(product.number),
            )
        })
        .collect();
    let many = async |c: &ContainerClient<Catalog>| {
        c.read_many(
            keys.iter()
                .map(|(partition, key)| key.in_partition(partition)),
        )
        .await
        .unwrap()
    };
    costs.add("100 documents, `read_many`", many).await;
    let each = async |c: &ContainerClient<Catalog>| {
        for (partition, key) in &keys {
            c.read(key.in_partition(partition)).await.unwrap();
        }
    };
    costs.add("100 documents, one read each", each).await;
}

async fn measure_conditions(costs: &mut Costs<'_>) {
    let title = Product::TITLE;
    let conditions = [
        ("`eq`", title.eq("redblue")),
        ("`starts_with`", title.starts_with("redblu")),
        ("`eq_ignore_case`", title.eq_ignore_case("REDBLUE")),
        ("`contains`", title.contains("edblu")),
        ("`ends_with`", title.ends_with("edblue")),
        (
            "`contains` of an array",
            Product::TAGS.contains("blue") & title.eq("redblue"),
        ),
    ];
    for (what, condition) in conditions {
        let query = Query::<Product>::across_partitions()
            .filter(condition)
            .count();
        let what = format!("`count` with {what}");
        costs
            .add(&what, async |c| c.query(query).one().await.unwrap())
            .await;
    }
}

async fn measure_patches(costs: &mut Costs<'_>, product: &Product) {
    let (partition, key) = (product.partition_key(), product.key());
    let append = Patch::new().append(Product::TAGS, "new".to_owned());
    let patch = async |c: &ContainerClient<Catalog>| {
        ok!(c.run(append.at(key.in_partition(&partition))));
    };
    costs.add("a patch that appends to an array", patch).await;
    let replace = async |c: &ContainerClient<Catalog>| {
        let mut stored = c.read(key.in_partition(&partition)).await.unwrap().unwrap();
        stored.document.tags.push("newer".to_owned());
        ok!(c.run(stored.document.replace().if_match(&stored.etag)));
    };
    costs
        .add("the same as a read and a replacement", replace)
        .await;
}

#[tokio::test]
async fn the_costs_in_the_docs_are_measured() {
    let account = Account::new().await;
    or_skip!(account.emulator(), "needs the emulator");
    let (catalog, products) = stocked(&account, 1_000, 1).await;
    catalog.physical_partitions().await.unwrap();
    let mut costs = Costs {
        account: &account,
        catalog: &catalog,
        lines: Vec::new(),
    };
    measure_aggregates(&mut costs).await;
    measure_keys(&mut costs, &products).await;
    measure_conditions(&mut costs).await;
    measure_patches(&mut costs, &products[0]).await;
    assert_table("queries.md", "## What they cost", &costs.lines.join("\n"));
}

/// Compares the first table below a heading of the docs; `UPDATE_EXPECT=1` replaces it.
pub(crate) fn assert_table(page: &str, heading: &str, measured: &str) {
    const HEAD: &str = "|---|--:|--:|--:|\n";
    let path = format!("{}/../docs/{page}", env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(&format!("{heading}\n")).unwrap();
    let (intro, rest) = rest.split_once(HEAD).unwrap();
    let (table, after) = rest.split_once("\n\n").unwrap();
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        let text = format!("{before}{heading}\n{intro}{HEAD}{measured}\n\n{after}");
        std::fs::write(&path, text).unwrap();
    } else {
        assert_eq!(table, measured, "UPDATE_EXPECT=1 updates {path}");
    }
}
