//! Draws containers, documents and operations from small domains, so that operations meet. Some are
//! invalid, because the service refuses them.

use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use crate::operation::{Condition, Key, Operation, Place, Step, Tag, Write};
use crate::queries;

/// Operations of a sequence: at least one, so that a failing sequence can shrink.
const SEQUENCE: std::ops::Range<usize> = 1..100;

/// The topic of a sequence.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Topic {
    Points,
    Patches,
    Batches,
    Queries,
    Hierarchies,
    Everything,
}

/// A container's definition and its operations.
pub(crate) type Sequence = (Value, Vec<Operation>);

/// Sequences on a topic.
pub(crate) fn sequences(topic: Topic) -> impl Strategy<Value = Sequence> {
    let hierarchical = matches!(topic, Topic::Hierarchies);
    (container(hierarchical), operations(topic))
}

fn operations(topic: Topic) -> BoxedStrategy<Vec<Operation>> {
    let keys = keys(matches!(topic, Topic::Hierarchies));
    let many = |operation| prop::collection::vec(operation, SEQUENCE).boxed();
    let writes = write(&keys);
    match topic {
        Topic::Points => {
            many(prop_oneof![3 => writes, 2 => point(&keys), 1 => feed(&keys)].boxed())
        }
        Topic::Patches => many(prop_oneof![1 => writes, 3 => patch(&keys)].boxed()),
        Topic::Batches => many(prop_oneof![1 => writes, 3 => batch(&keys)].boxed()),
        Topic::Queries => {
            // The documents first, then queries.
            let filled = prop::collection::vec(plain_write(&keys), 1..40);
            let asked = prop::collection::vec(queries::query(&keys), SEQUENCE);
            (filled, asked)
                .prop_map(|(filled, asked)| filled.into_iter().chain(asked).collect())
                .boxed()
        }
        Topic::Hierarchies | Topic::Everything => many(
            prop_oneof![
                4 => writes,
                2 => point(&keys),
                2 => patch(&keys),
                1 => batch(&keys),
                2 => queries::query(&keys),
                1 => feed(&keys),
            ]
            .boxed(),
        ),
    }
}

fn container(hierarchical: bool) -> BoxedStrategy<Value> {
    let partition_key = if hierarchical {
        json!({ "paths": ["/t", "/pk"], "kind": "MultiHash", "version": 2 })
    } else {
        json!({ "paths": ["/pk"], "kind": "Hash", "version": 2 })
    };
    let unique = json!({ "uniqueKeys": [{ "paths": ["/u"] }] });
    prop_oneof![
        4 => Just(json!({ "partitionKey": partition_key })),
        1 => Just(json!({ "partitionKey": partition_key, "uniqueKeyPolicy": unique })),
    ]
    .boxed()
}

/// Partition keys: two frequent ones, and values of every type that a key may have.
fn keys(hierarchical: bool) -> BoxedStrategy<Key> {
    if hierarchical {
        let keys = [["s", "p"], ["s", "q"], ["t", "p"]];
        return select(keys.map(|[t, pk]| vec![json!(t), json!(pk)]).to_vec()).boxed();
    }
    let rare = [
        json!(1),
        json!(1.5),
        json!(true),
        Value::Null,
        json!("é "),
        json!({}),
    ];
    prop_oneof![
        30 => select(vec![vec![json!("p")], vec![json!("q")]]),
        1 => select(rare.map(|value| vec![value]).to_vec()),
    ]
    .boxed()
}

fn ids() -> BoxedStrategy<String> {
    let rare = [
        "x/y", "x\\y", "x?y", "x#y", "x ", " x", "é%20", "x y", "a'b\"c",
    ];
    prop_oneof![
        60 => select(vec!["a", "b", "c", "d", "e", "f"]),
        1 => select(rare.to_vec()),
    ]
    .prop_map(str::to_owned)
    .boxed()
}

fn place(keys: &BoxedStrategy<Key>) -> BoxedStrategy<Place> {
    (keys.clone(), ids())
        .prop_map(|(key, id)| Place { key, id })
        .boxed()
}

/// Scalar values.
pub(crate) fn scalar() -> BoxedStrategy<Value> {
    let strings = ["", "a", "ab", "b", "B", "a%b_", "é", "2024-05-01T00:00:00Z"];
    prop_oneof![
        5 => (-3..10).prop_map(Value::from),
        1 => (-3..10).prop_map(|n| json!(f64::from(n) + 0.5)),
        5 => select(strings.to_vec()).prop_map(Value::from),
        1 => any::<bool>().prop_map(Value::from),
        1 => Just(Value::Null),
    ]
    .boxed()
}

fn value() -> BoxedStrategy<Value> {
    let items = prop::collection::vec(scalar(), 0..4);
    prop_oneof![
        6 => scalar(),
        1 => items.prop_map(Value::from),
        1 => scalar().prop_map(|inner| json!({ "e": inner })),
        1 => select(vec![json!(3.0), json!(1e21), json!(-0.5), json!(9_007_199_254_740_991_i64)]),
    ]
    .boxed()
}

/// A document's own properties: `n` is always a number and `s` always text where they are there,
/// `v` is anything.
fn properties() -> BoxedStrategy<Value> {
    (
        prop::option::weighted(0.9, -5..20),
        prop::option::weighted(0.8, select(vec!["", "a", "ab", "b", "abc", "é"])),
        prop::option::of(value()),
        prop::option::of(prop::collection::vec(scalar(), 0..4)),
        prop::option::of(scalar()),
        prop::option::weighted(0.3, 0..6),
    )
        .prop_map(|(n, s, v, tags, inner, u)| {
            let mut document = json!({});
            let mut put = |name: &str, value: Option<Value>| {
                if let Some(value) = value {
                    document[name] = value;
                }
            };
            put("n", n.map(Value::from));
            put("s", s.map(Value::from));
            put("v", v);
            put("tags", tags.map(Value::from));
            put("d", inner.map(|inner| json!({ "e": inner })));
            put("u", u.map(Value::from));
            document
        })
        .boxed()
}

/// A document whose partition key and id match its address.
fn at(place: &Place, mut document: Value) -> Value {
    document["id"] = place.id.clone().into();
    let paths = if place.key.len() == 2 {
        &["t", "pk"][..]
    } else {
        &["pk"]
    };
    for (path, value) in paths.iter().zip(&place.key) {
        if *value != json!({}) {
            document[*path] = value.clone();
        }
    }
    document
}

/// Rare defects of a document.
fn spoilt(document: BoxedStrategy<(Place, Value)>) -> BoxedStrategy<(Place, Value)> {
    let flaws = prop_oneof![
        40 => Just(0),
        5 => 1..6,
    ];
    (document, flaws)
        .prop_map(|((place, mut document), flaw)| {
            match flaw {
                1 => document["pk"] = "elsewhere".into(),
                2 => document["id"] = "g".into(),
                3 => document["id"] = 5.into(),
                4 => document["ttl"] = 1000.into(),
                5 => document["ttl"] = 0.into(),
                _ => {}
            }
            (place, document)
        })
        .boxed()
}

fn tag() -> BoxedStrategy<Tag> {
    prop_oneof![
        6 => Just(Tag::Current),
        2 => Just(Tag::Former),
        1 => Just(Tag::Foreign),
        1 => Just(Tag::Any),
    ]
    .boxed()
}

fn condition() -> BoxedStrategy<Condition> {
    (
        prop::option::weighted(0.3, tag()),
        prop::option::weighted(0.05, tag()),
    )
        .prop_map(|(if_match, if_none_match)| Condition {
            if_match,
            if_none_match,
        })
        .boxed()
}

fn read_condition() -> BoxedStrategy<Condition> {
    prop::option::of(tag())
        .prop_map(|if_none_match| Condition {
            if_match: None,
            if_none_match,
        })
        .boxed()
}

fn document(keys: &BoxedStrategy<Key>) -> BoxedStrategy<(Place, Value)> {
    (place(keys), properties())
        .prop_map(|(place, properties)| {
            let document = at(&place, properties);
            (place, document)
        })
        .boxed()
}

fn write(keys: &BoxedStrategy<Key>) -> BoxedStrategy<Operation> {
    let kinds =
        prop_oneof![3 => Just(Write::Create), 3 => Just(Write::Upsert), 2 => Just(Write::Replace)];
    (kinds, spoilt(document(keys)), condition())
        .prop_map(|(kind, (place, document), condition)| {
            let condition = if kind == Write::Create {
                Condition::default()
            } else {
                condition
            };
            Operation::Write(kind, place, document, condition)
        })
        .boxed()
}

/// Upserts of correct documents with many ids, for later queries.
fn plain_write(keys: &BoxedStrategy<Key>) -> BoxedStrategy<Operation> {
    (keys.clone(), 0..20, properties())
        .prop_map(|(key, id, properties)| {
            let place = Place {
                key,
                id: format!("d{id}"),
            };
            let document = at(&place, properties);
            Operation::Write(Write::Upsert, place, document, Condition::default())
        })
        .boxed()
}

fn point(keys: &BoxedStrategy<Key>) -> BoxedStrategy<Operation> {
    prop_oneof![
        2 => (place(keys), read_condition()).prop_map(|(place, condition)| Operation::Read(place, condition)),
        1 => (place(keys), condition()).prop_map(|(place, condition)| Operation::Delete(place, condition)),
    ]
    .boxed()
}

fn feed(keys: &BoxedStrategy<Key>) -> BoxedStrategy<Operation> {
    (prop::option::of(keys.clone()), prop::option::of(1..5_usize))
        .prop_map(|(key, page)| Operation::Feed(key, page))
        .boxed()
}

fn change() -> BoxedStrategy<Value> {
    let paths = [
        "/n", "/s", "/v", "/tags", "/tags/0", "/tags/1", "/tags/-", "/d", "/d/e", "/new",
    ];
    let refused = [
        "/no/such", "/id", "/pk", "/_ts", "/_etag", "n", "", "/tags/01", "/tags/x", "/n/x",
    ];
    let path = prop_oneof![12 => select(paths.to_vec()), 1 => select(refused.to_vec())].boxed();
    let valued = select(vec!["add", "set", "replace", "set"]);
    let by = prop_oneof![4 => (-3..4).prop_map(Value::from), 1 => Just(json!(0.5))];
    prop_oneof![
        5 => (valued, path.clone(), value())
            .prop_map(|(op, path, value)| json!({ "op": op, "path": path, "value": value })),
        2 => path.clone().prop_map(|path| json!({ "op": "remove", "path": path })),
        2 => (prop_oneof![6 => Just("/n"), 1 => Just("/tags/-"), 2 => path.clone()], by)
            .prop_map(|(path, by)| json!({ "op": "incr", "path": path, "value": by })),
        2 => (path.clone(), path)
            .prop_map(|(from, path)| json!({ "op": "move", "from": from, "path": path })),
    ]
    .boxed()
}

fn changes() -> BoxedStrategy<Value> {
    let condition = (queries::filter(), prop::bool::weighted(0.1));
    (prop::collection::vec(change(), 1..4), condition)
        .prop_map(|(changes, (filter, conditional))| {
            let mut patch = json!({ "operations": changes });
            if conditional {
                // A condition has no parameters.
                let filter = filter.ours.replace("@p", "'p'");
                patch["condition"] = format!("from c where {filter}").into();
            }
            patch
        })
        .boxed()
}

fn patch(keys: &BoxedStrategy<Key>) -> BoxedStrategy<Operation> {
    let empty_or_long = prop_oneof![Just(0_usize), Just(11)];
    let counted = empty_or_long
        .prop_map(|count| json!({ "operations": vec![json!({ "op": "set", "path": "/n", "value": 1 }); count] }));
    let patch = prop_oneof![40 => changes(), 1 => counted];
    (place(keys), patch, condition())
        .prop_map(|(place, patch, condition)| Operation::Patch(place, patch, condition))
        .boxed()
}

fn step() -> BoxedStrategy<(&'static str, String, Value, Condition)> {
    let kinds = prop_oneof![
        4 => Just("Create"), 4 => Just("Upsert"), 3 => Just("Replace"), 2 => Just("Read"), 2 => Just("Delete"),
    ];
    (kinds, ids(), properties(), condition()).boxed()
}

fn batch(keys: &BoxedStrategy<Key>) -> BoxedStrategy<Operation> {
    let patches = (prop::bool::weighted(0.03), ids(), changes());
    (keys.clone(), prop::collection::vec(step(), 1..6), patches)
        .prop_map(|(key, steps, (patched, id, patch))| {
            let mut steps: Vec<Step> = steps
                .into_iter()
                .map(|(kind, id, properties, condition)| {
                    to_step(&key, kind, (id, properties), condition)
                })
                .collect();
            if patched {
                steps.push(Step {
                    kind: "Patch",
                    id,
                    body: Some(patch),
                    condition: Condition::default(),
                });
            }
            Operation::Batch(key, steps)
        })
        .boxed()
}

fn to_step(
    key: &Key,
    kind: &'static str,
    (id, properties): (String, Value),
    condition: Condition,
) -> Step {
    let place = Place {
        key: key.clone(),
        id: id.clone(),
    };
    let whole = matches!(kind, "Create" | "Upsert" | "Replace");
    Step {
        kind,
        id,
        body: whole.then(|| at(&place, properties)),
        condition: if kind == "Create" {
            Condition::default()
        } else {
            condition
        },
    }
}
