//! Patches, compared with the same changes in Rust.

use cdb_model::operation::PatchError;
use cdb_model::{Document, Patch, Timestamp};

use crate::account::Account;
use crate::catalog::{Numbers, Product, WORDS, product, stocked};

fn is_name(word: &str) -> bool {
    !word.is_empty() && !word.contains(['/', '~'])
}

/// Adds a generated change to the patch, and makes the same change in Rust.
fn change(patch: Patch<Product>, changed: &mut Product, random: &mut Numbers) -> Patch<Product> {
    let word = random.one_of(&WORDS).to_owned();
    let number = u32::try_from(random.below(100)).unwrap();
    let tags = u64::try_from(changed.tags.len()).unwrap();
    let at = usize::try_from(random.below(tags + 1)).unwrap();
    match random.below(11) {
        0 => {
            changed.title.clone_from(&word);
            patch.set(Product::TITLE, word)
        }
        1 => {
            changed.tags.push(word.clone());
            patch.append(Product::TAGS, word)
        }
        2 => {
            changed.tags.insert(at, word.clone());
            patch.insert(Product::TAGS, at, word)
        }
        3 if at < changed.tags.len() => {
            changed.tags[at].clone_from(&word);
            patch.set_at(Product::TAGS, at, word)
        }
        4 if at < changed.tags.len() => {
            changed.tags.remove(at);
            patch.remove_at(Product::TAGS, at)
        }
        5 => {
            changed.origin.city.clone_from(&word);
            patch.set(Product::ORIGIN_CITY, word)
        }
        6 => {
            changed.origin.batches.push(number);
            patch.append(Product::ORIGIN_BATCHES, number)
        }
        7 if is_name(&word) => {
            changed.stock.insert(word.clone(), number.into());
            patch.set_entry(&Product::STOCK.entry(word), i64::from(number))
        }
        8 if is_name(&word) => {
            *changed.stock.entry(word.clone()).or_default() += i64::from(number);
            patch.incr_entry(&Product::STOCK.entry(word), number.into())
        }
        9 if changed.stock.remove(&word).is_some() => {
            patch.remove_entry(&Product::STOCK.entry(word))
        }
        _ => {
            changed.stock_change += i64::from(number);
            patch.incr(Product::STOCK_CHANGE, number.into())
        }
    }
}

#[tokio::test]
async fn patches_change_documents_as_the_same_changes_in_rust() {
    let account = Account::new().await;
    let (catalog, _) = stocked(&account, 0, 0).await;
    for seed in 0..100 {
        let mut random = Numbers(seed);
        let mut expected = product(seed, &mut random);
        catalog.run(expected.create()).await.unwrap();
        let mut patch = Patch::new();
        if random.chance() {
            expected.former_category = expected.category.take();
            patch = patch.move_to(Product::CATEGORY, Product::FORMER_CATEGORY);
        }
        for _ in 0..=random.below(9) {
            patch = change(patch, &mut expected, &mut random);
        }
        let (partition, key) = (expected.partition_key(), expected.key());
        ok!(catalog.run(patch.at(key.in_partition(&partition))));
        let found = catalog
            .read(key.in_partition(&partition))
            .await
            .unwrap()
            .unwrap();
        assert_eq!(found.document, expected, "seed {seed}: {patch:?}");
    }
}

#[tokio::test]
async fn a_change_of_a_missing_element_or_path_is_refused_as_a_whole() {
    let account = Account::new().await;
    let (catalog, _) = stocked(&account, 0, 0).await;
    let mut product = product(1, &mut Numbers(1));
    product.tags = vec!["red".to_owned()];
    catalog.run(product.create()).await.unwrap();
    let (partition, key) = (product.partition_key(), product.key());
    let patch = || Patch::<Product>::new().set(Product::TITLE, "changed");
    for refused in [
        patch().insert(Product::TAGS, 2, "blue".to_owned()),
        patch().remove_at(Product::TAGS, 1),
        patch().move_to(Product::FORMER_CATEGORY, Product::CATEGORY),
    ] {
        let error = catalog
            .run(refused.at(key.in_partition(&partition)))
            .await
            .unwrap_err();
        assert_eq!(
            error.status().map(|status| status.code),
            Some(400),
            "{refused:?}: {error}"
        );
    }
    let found = catalog
        .read(key.in_partition(&partition))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(found.document, product);
}

#[tokio::test]
async fn the_conditions_of_entries_hold_for_entries_that_exist() {
    let account = Account::new().await;
    let (catalog, _) = stocked(&account, 0, 0).await;
    let mut product = product(1, &mut Numbers(1));
    product.stock.insert("a lamp, \"red\"".to_owned(), 3);
    catalog.run(product.create()).await.unwrap();
    let (partition, key) = (product.partition_key(), product.key());
    let (lamp, chair) = (
        Product::STOCK.entry("a lamp, \"red\""),
        Product::STOCK.entry("chair"),
    );
    let patch = || Patch::<Product>::new().incr_entry(&lamp, 0);
    for (patch, holds) in [
        (patch().when_entry_eq(&lamp, 3), true),
        (patch().when_entry_eq(&lamp, 2), false),
        (patch().when_entry_ge(&lamp, 3), true),
        (patch().when_entry_ge(&lamp, 4), false),
        (patch().when_no_entry(&lamp), false),
        (patch().when_no_entry(&chair), true),
        (patch().when_entry_eq(&chair, 0), false),
        (patch().when_entry_ge(&chair, 0), false),
    ] {
        let sent = catalog.run(patch.at(key.in_partition(&partition))).await;
        match sent {
            Ok(_) => assert!(holds, "{patch:?}"),
            Err(error) => assert!(
                error.is_precondition_failed() && !holds,
                "{patch:?}: {error}"
            ),
        }
    }
    let patch = patch().incr_entry(&lamp, 4);
    let after = catalog
        .patch_and_read(patch.at(key.in_partition(&partition)))
        .await
        .unwrap();
    product.stock.insert("a lamp, \"red\"".to_owned(), 7);
    assert_eq!(after.document, product);
    let read = catalog.read(key.in_partition(&partition)).await.unwrap();
    assert_eq!(read.unwrap().etag, after.etag);
    let missing = Patch::<Product>::new().remove_entry(&chair);
    let error = catalog.run(missing.at(key.in_partition(&partition))).await;
    let status = error.unwrap_err().status().map(|status| status.code);
    assert_eq!(status, Some(400));
}

#[test]
fn names_of_entries_that_a_path_cannot_have_are_refused() {
    for name in ["", "a/b", "~"] {
        let patch = Patch::<Product>::new().incr_entry(&Product::STOCK.entry(name), 1);
        let error = patch.body(Timestamp::default()).unwrap_err();
        assert!(matches!(error, PatchError::Value(_)), "{error}");
        assert!(error.to_string().contains("no name of an entry"), "{error}");
    }
}

#[test]
fn only_patches_that_set_values_are_repeatable_and_ten_changes_are_the_limit() {
    let repeatable = |patch: Patch<Product>| {
        let body = patch.body(Timestamp::from_millis(0)).unwrap();
        body.is_repeatable()
    };
    let set = || Patch::<Product>::new().set_at(Product::TAGS, 0, "red".to_owned());
    assert!(repeatable(set()));
    for once in [
        set().append(Product::TAGS, "blue".to_owned()),
        set().insert(Product::TAGS, 0, "blue".to_owned()),
        set().remove_at(Product::TAGS, 0),
        set().move_to(Product::CATEGORY, Product::FORMER_CATEGORY),
    ] {
        assert!(!repeatable(once.clone()), "{once:?}");
    }
    let append = |count| {
        (0..count).fold(Patch::<Product>::new(), |patch, number| {
            patch.append(Product::ORIGIN_BATCHES, number)
        })
    };
    assert!(append(10).body(Timestamp::default()).is_ok());
    assert!(matches!(
        append(11).body(Timestamp::default()),
        Err(PatchError::TooMany { count: 11, .. })
    ));
}
