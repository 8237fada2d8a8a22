//! What serde reads, filters find, patches keep, and addresses name: for the attributes of serde that a
//! document may have, and for documents that other programs have written.

#![expect(
    clippy::excessive_nesting,
    clippy::similar_names,
    clippy::trivially_copy_pass_by_ref,
    reason = "loops over the generated cases, and functions whose form serde requires"
)]

mod increments;
mod keys;

use cdb_client::{Bootstrap, ContainerClient};
use cdb_model::query::{Criterion, Filter, Operator};
use cdb_model::stored::UnknownFields;
use cdb_model::{Container, Document, DocumentKey as _, Patch, Query, Scalar};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::account::Account;
use crate::catalog::Numbers;

#[derive(Scalar, Serialize, Deserialize, Clone, Copy, Debug, PartialEq)]
#[serde(rename_all = "kebab-case")]
enum State {
    WellDone,
    #[serde(rename = "0")]
    Raw,
}

#[derive(Scalar, Serialize, Deserialize, Clone, Debug, PartialEq)]
struct Owner(String);

/// The type of an optional field, under another name.
type MaybeOwner = Option<Owner>;

/// A field per way to store a value, or none.
#[derive(Document, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
#[document(type = "form", id = "form:{number}")]
struct Form {
    #[document(partition_key)]
    shop: String,
    number: u64,
    #[document(index)]
    required: i64,
    /// Null if there is none.
    #[document(index)]
    kept: Option<i64>,
    /// Missing if there is none.
    #[document(index)]
    #[serde(skip_serializing_if = "Option::is_none")]
    skipped: Option<i64>,
    #[document(index)]
    #[serde(default)]
    zero: i64,
    #[document(index)]
    #[serde(default = "two", skip_serializing_if = "is_two")]
    two: i64,
    #[document(index)]
    #[serde(default = "some_two")]
    maybe_two: Option<i64>,
    #[document(index)]
    #[serde(rename = "the state", skip_serializing_if = "Option::is_none")]
    state: Option<State>,
    #[document(index)]
    #[serde(default)]
    owner: MaybeOwner,
    #[document(index)]
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    flag: bool,
    #[document(index)]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    tags: Vec<i64>,
    #[document(index)]
    #[serde(skip_serializing_if = "Option::is_none")]
    words: Option<String>,
    /// Filters need an index, conditions of patches do not.
    unindexed: Option<i64>,
}

fn two() -> i64 {
    2
}

fn is_two(value: &i64) -> bool {
    *value == 2
}

#[expect(clippy::unnecessary_wraps, reason = "the default of an `Option`")]
fn some_two() -> Option<i64> {
    Some(2)
}

#[derive(Container, Clone, Debug)]
enum Forms {
    Form(Form),
}

/// The same documents as another program writes them.
#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[document(type = "form", id = "form:{number}", version = 1)]
struct Raw {
    #[document(partition_key)]
    shop: String,
    number: u64,
    #[serde(flatten)]
    #[document(unknown)]
    rest: UnknownFields,
}

#[derive(Container, Clone, Debug)]
enum Raws {
    Raw(Raw),
}

/// The stored names, with values of their types.
const FIELDS: [(&str, &[&str]); 12] = [
    ("required", &["1", "2", "3"]),
    ("kept", &["1", "2", "3"]),
    ("skipped", &["1", "2", "3"]),
    ("zero", &["0", "1", "2"]),
    ("two", &["1", "2", "3"]),
    ("maybeTwo", &["1", "2", "3"]),
    ("the state", &["\"well-done\"", "\"0\""]),
    ("owner", &["\"a\"", "\"b\""]),
    ("flag", &["true", "false"]),
    ("tags", &["[]", "[1]", "[1, 2]"]),
    ("words", &["\"red\"", "\"Redden\"", "\"\""]),
    ("unindexed", &["1", "2", "3"]),
];

/// Stores documents with each field present, null or missing, and returns those that are read.
async fn stored(forms: &ContainerClient<Forms>, raws: &ContainerClient<Raws>) -> Vec<Form> {
    let mut random = Numbers(7);
    let mut read = Vec::new();
    for number in 0..120 {
        let mut rest = Map::new();
        for (name, values) in FIELDS {
            match random.below(6) {
                0 => {}
                1 if name != "required" => {
                    rest.insert(name.to_owned(), Value::Null);
                }
                _ => {
                    let value = serde_json::from_str(random.one_of(values)).unwrap();
                    rest.insert(name.to_owned(), value);
                }
            }
        }
        let raw = Raw {
            shop: "s".to_owned(),
            number,
            rest: serde_json::from_value(Value::Object(rest)).unwrap(),
        };
        raws.run(raw.create()).await.unwrap();
        if let Ok(Some(form)) = forms.read(FormKey::new(number).in_partition("s")).await {
            read.push(form.document);
        } else {
            raws.run(raw.address().delete()).await.unwrap();
        }
    }
    assert!(read.len() > 20, "{}", read.len());
    read
}

type Holds = Box<dyn Fn(&Form) -> bool>;

/// Returns comparisons of one path with one value, as filters and in Rust.
macro_rules! comparisons {
    ($random:ident, $path:ident, $field:ident, $value:expr) => {{
        let value = $value;
        let other = $value;
        let values = [value.clone(), other.clone()];
        let filter: (Filter<Form>, Holds) = match $random.below(3) {
            0 => (
                Form::$path.eq(&value),
                Box::new(move |form| form.$field == value),
            ),
            1 => (
                Form::$path.ne(&value),
                Box::new(move |form| form.$field != value),
            ),
            _ => (
                Form::$path.is_in(values.clone()),
                Box::new(move |form| values.contains(&form.$field)),
            ),
        };
        filter
    }};
}

fn number(random: &mut Numbers) -> i64 {
    i64::try_from(random.below(4)).unwrap()
}

fn maybe(random: &mut Numbers) -> Option<i64> {
    random.chance().then(|| number(random))
}

/// Returns a generated condition on one path.
fn condition(random: &mut Numbers) -> (Filter<Form>, Holds) {
    let least = number(random);
    match random.below(13) {
        0 => comparisons!(random, REQUIRED, required, number(random)),
        1 => comparisons!(random, KEPT, kept, maybe(random)),
        2 => comparisons!(random, SKIPPED, skipped, maybe(random)),
        3 => comparisons!(random, ZERO, zero, number(random)),
        4 => comparisons!(random, TWO, two, number(random)),
        5 => comparisons!(random, MAYBE_TWO, maybe_two, maybe(random)),
        6 => comparisons!(
            random,
            STATE,
            state,
            [None, Some(State::WellDone), Some(State::Raw)]
                [usize::try_from(random.below(3)).unwrap()]
        ),
        7 => comparisons!(
            random,
            OWNER,
            owner,
            [None, Some(Owner("a".to_owned()))][usize::try_from(random.below(2)).unwrap()].clone()
        ),
        8 => comparisons!(random, FLAG, flag, random.chance()),
        9 => (
            Form::TAGS.contains(least),
            Box::new(move |form| form.tags.contains(&least)),
        ),
        10 => (
            Form::WORDS.starts_with_ignore_case("RED"),
            Box::new(|form| {
                let words = form.words.as_ref();
                words.is_some_and(|words| words.to_lowercase().starts_with("red"))
            }),
        ),
        // `None` is neither less nor greater than a value.
        11 => (
            Form::SKIPPED.ge(least),
            Box::new(move |form| form.skipped.is_some_and(|value| value >= least)),
        ),
        _ => (Form::TWO.lt(least), Box::new(move |form| form.two < least)),
    }
}

/// Returns a generated combination of conditions.
fn combination(random: &mut Numbers, depth: u32) -> (Filter<Form>, Holds) {
    if depth == 0 {
        return condition(random);
    }
    let (left, holds_left) = combination(random, depth - 1);
    match random.below(4) {
        0 => (!left, Box::new(move |form| !holds_left(form))),
        1 => {
            let (right, holds_right) = combination(random, depth - 1);
            (
                left & right,
                Box::new(move |form| holds_left(form) && holds_right(form)),
            )
        }
        2 => {
            let (right, holds_right) = combination(random, depth - 1);
            (
                left | right,
                Box::new(move |form| holds_left(form) || holds_right(form)),
            )
        }
        _ => (left, holds_left),
    }
}

async fn opened(account: &Account) -> (ContainerClient<Forms>, ContainerClient<Raws>) {
    let forms = account.open::<Forms>("forms").await;
    let raws = account.database.bootstrap("forms", Bootstrap::Skip);
    (forms, raws.await.unwrap())
}

async fn numbers(forms: &ContainerClient<Forms>, filter: Filter<Form>) -> Vec<u64> {
    let query = Query::<Form>::in_partition("s").filter(filter);
    let mut numbers = forms.query(query.values(Form::NUMBER)).all().await.unwrap();
    numbers.sort_unstable();
    numbers
}

fn expected(read: &[Form], holds: impl Fn(&Form) -> bool) -> Vec<u64> {
    let found = read.iter().filter(|form| holds(form));
    found.map(|form| form.number).collect()
}

#[tokio::test]
async fn a_filter_finds_what_is_read_whichever_way_it_is_stored() {
    let account = Account::new().await;
    let (forms, raws) = opened(&account).await;
    let read = stored(&forms, &raws).await;
    let mut found = 0;
    for seed in 0..600 {
        let mut random = Numbers(seed);
        let depth = u32::try_from(random.below(3)).unwrap();
        let (filter, holds) = combination(&mut random, depth);
        let text = format!("seed {seed}: {filter:?}");
        let expected = expected(&read, holds);
        found += expected.len();
        assert_eq!(numbers(&forms, filter).await, expected, "{text}");
    }
    assert!(found > 5_000, "{found}");
}

#[tokio::test]
async fn a_criterion_with_null_finds_what_is_read_as_none() {
    let account = Account::new().await;
    let (forms, raws) = opened(&account).await;
    let read = stored(&forms, &raws).await;
    for (operator, value, holds) in [
        (Operator::Eq, json!(null), false),
        (Operator::In, json!([null, 7]), false),
        (Operator::IsAbsent, json!(null), false),
        (Operator::Ne, json!(null), true),
    ] {
        for field in ["kept", "skipped"] {
            let criterion = Criterion {
                field: field.to_owned(),
                operator,
                value: value.clone(),
            };
            let filter = Filter::from_criteria(&[criterion]).unwrap();
            let expected = expected(&read, |form| {
                let value = if field == "kept" {
                    form.kept
                } else {
                    form.skipped
                };
                value.is_some() == holds
            });
            let found = numbers(&forms, filter).await;
            assert_eq!(found, expected, "{field} {operator:?}");
        }
    }
}

/// Returns the condition that a field has the value that was read.
fn as_read(form: &Form, random: &mut Numbers) -> Patch<Form> {
    let patch = Patch::new();
    match random.below(9) {
        0 => patch.when_eq(Form::REQUIRED, form.required),
        1 => patch.when_eq(Form::KEPT, form.kept),
        2 => patch.when_eq(Form::SKIPPED, form.skipped),
        3 => patch.when_eq(Form::UNINDEXED, form.unindexed),
        4 => patch.when_eq(Form::TWO, form.two),
        5 => patch.when_eq(Form::MAYBE_TWO, form.maybe_two),
        6 => patch.when_eq(Form::STATE, form.state),
        7 => patch.when_eq(Form::OWNER, form.owner.clone()),
        _ => patch.when_eq(Form::FLAG, form.flag),
    }
}

/// Adds a change, to the patch and in Rust.
fn change(patch: Patch<Form>, form: &mut Form, random: &mut Numbers) -> Patch<Form> {
    match random.below(7) {
        0 => {
            form.kept = maybe(random);
            patch.set(Form::KEPT, form.kept)
        }
        1 => {
            form.skipped = maybe(random);
            patch.set(Form::SKIPPED, form.skipped)
        }
        2 => {
            form.two = number(random);
            patch.set(Form::TWO, form.two)
        }
        3 => {
            form.state = Some(State::Raw);
            patch.set(Form::STATE, State::Raw)
        }
        4 => {
            form.owner = None;
            patch.set(Form::OWNER, None)
        }
        5 => {
            form.flag = random.chance();
            patch.set(Form::FLAG, form.flag)
        }
        _ => {
            form.tags = vec![3];
            patch.set(Form::TAGS, vec![3])
        }
    }
}

#[tokio::test]
async fn a_patch_holds_for_what_is_read_and_keeps_the_document_readable() {
    let account = Account::new().await;
    let (forms, raws) = opened(&account).await;
    let mut random = Numbers(3);
    for mut form in stored(&forms, &raws).await {
        let address = form.address();
        for _ in 0..4 {
            let patch = as_read(&form, &mut random);
            let patch = change(patch, &mut form, &mut random);
            let text = format!("{patch:?} of {form:?}");
            forms.run(patch.at(&address)).await.expect(&text);
            let read = forms.read(&address).await.expect(&text).unwrap();
            assert_eq!(read.document, form, "{text}");
            assert_eq!(read.id, read.key().to_id().unwrap());
        }
        let found = numbers(
            &forms,
            Form::STATE.eq(form.state) & Form::KEPT.eq(form.kept),
        );
        assert!(found.await.contains(&form.number), "{form:?}");
    }
}

#[tokio::test]
async fn a_patch_condition_takes_any_scalar_path() {
    let account = Account::new().await;
    let forms = account.open::<Forms>("forms").await;
    let stored = Form {
        unindexed: Some(2),
        ..form(1)
    };
    forms.run(stored.create()).await.unwrap();
    let path = Form::UNINDEXED;
    for (patch, holds) in [
        (Patch::new().when_ne(path, 1), true),
        (Patch::new().when_ne(path, 2), false),
        (Patch::new().when_ne(path, None), true),
        (Patch::new().when_in(path, [1, 2]), true),
        (Patch::new().when_in(path, [None, Some(1)]), false),
        (Patch::new().when_lt(path, 3), true),
        (Patch::new().when_lt(path, 2), false),
        (Patch::new().when_le(path, 2), true),
        (Patch::new().when_gt(path, 1), true),
        (Patch::new().when_gt(path, 2), false),
        (Patch::new().when_ge(path, 2), true),
        (Patch::new().when_ge(path, 3), false),
    ] {
        let text = format!("{patch:?}");
        let patch = patch.set(Form::ZERO, 1).at(&stored.address());
        match forms.run(patch).await {
            Ok(_) => assert!(holds, "{text}"),
            Err(error) => assert!(error.is_precondition_failed() && !holds, "{text}: {error}"),
        }
    }
}

fn form(number: u64) -> Form {
    Form {
        shop: "s".to_owned(),
        number,
        required: 0,
        kept: None,
        skipped: None,
        zero: 0,
        two: 2,
        maybe_two: None,
        state: None,
        owner: None,
        flag: false,
        tags: Vec::new(),
        words: None,
        unindexed: None,
    }
}
