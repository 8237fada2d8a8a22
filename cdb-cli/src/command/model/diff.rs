//! `cdb model diff`: the changes since an earlier build, and which of them break something.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::path::PathBuf;

use cdb_model::policy::ComputedProperty;
use clap::Args;
use serde::{Deserialize, Serialize};

use super::described::Described;
use crate::exit::{Exit, Failure};
use crate::model::Model;
use crate::output::{Console, counted};

#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    /// The answer of `model --json` of the earlier build
    file: PathBuf,
}

/// What the comparison needs of a described model.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Build {
    partition_key: Vec<String>,
    discriminator: String,
    types: Vec<DocumentType>,
    #[serde(default)]
    computed_properties: Vec<ComputedProperty>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DocumentType {
    discriminator: String,
    id: String,
    version: Option<u32>,
    fields: Vec<Field>,
    composites: Vec<Composite>,
    /// `None` in answers of a command that did not describe them.
    unique_keys: Option<Vec<Vec<String>>>,
}

#[derive(Deserialize)]
struct Composite {
    paths: Vec<String>,
}

#[derive(Deserialize)]
struct Field {
    path: String,
    indexing: String,
    optional: bool,
    #[serde(skip)]
    is_computed: bool,
}

/// The answer of `model diff`.
#[derive(Debug, Default, Serialize)]
struct Changes {
    changes: Vec<Change>,
}

#[derive(Debug, Serialize)]
struct Change {
    /// Whether old documents or old programs fail, or data is lost.
    breaks: bool,
    what: String,
    effect: &'static str,
}

pub(super) fn run(
    args: &DiffArgs,
    model: &Model,
    console: &mut Console<'_>,
) -> Result<Exit, Failure> {
    let refuse = |error: &dyn fmt::Display| {
        let file = args.file.display();
        Failure::usage(format!(
            "{file} is not an answer of `model --json`: {error}"
        ))
    };
    let old = fs::read(&args.file)
        .map_err(|error| Failure::usage(format!("cannot read {}: {error}", args.file.display())))?;
    let mut old: Build = serde_json::from_slice(&old).map_err(|error| refuse(&error))?;
    let new = serde_json::to_value(Described::of(model)).and_then(serde_json::from_value);
    let mut new: Build = new.map_err(|error| Failure::usage(error.to_string()))?;
    old.mark_computed();
    new.mark_computed();
    let changes = Changes::between(&old, &new);
    console.answer(&changes)?;
    let breaks = changes.changes.iter().any(|change| change.breaks);
    Ok(if breaks { Exit::Finding } else { Exit::Ok })
}

impl Changes {
    fn between(old: &Build, new: &Build) -> Self {
        let mut changes = Self::default();
        let keys = [&old.partition_key, &new.partition_key].map(|paths| paths.join(", "));
        changes.compare(
            "the partition key",
            &keys[0],
            &keys[1],
            "a container keeps its partition key; copy the documents to another one",
        );
        let properties = (&old.discriminator, &new.discriminator);
        changes.compare(
            "the property of the type",
            properties.0,
            properties.1,
            "stored documents have no known type",
        );
        if let (Some(before), Some(after)) = (old.unique_keys(), new.unique_keys()) {
            changes.compare(
                "the set of unique keys",
                &before,
                &after,
                "a container keeps its unique keys; copy the documents to another one",
            );
        }
        changes.of_computed(old, new);
        for before in &old.types {
            match new.find(&before.discriminator) {
                Some(after) => changes.of_type(before, after),
                None => changes.add(
                    true,
                    format!("type `{}` is removed or renamed", before.discriminator),
                    "its stored documents are no longer read",
                ),
            }
        }
        for after in &new.types {
            if old.find(&after.discriminator).is_none() {
                changes.add(
                    false,
                    format!("type `{}` is new", after.discriminator),
                    "older programs leave it out",
                );
            }
        }
        changes
    }

    fn of_type(&mut self, old: &DocumentType, new: &DocumentType) {
        let name = &new.discriminator;
        self.compare(
            &format!("`{name}`: the id pattern"),
            &old.id,
            &new.id,
            "stored documents are not found by their keys",
        );
        match (old.version, new.version) {
            (Some(before), after) if after.is_none_or(|after| after < before) => {
                let change = format!("`{name}`: version {before} is removed or reduced");
                self.add(true, change, "stored documents are newer than the program");
            }
            (before, Some(after)) if before != Some(after) => {
                let change = format!("`{name}`: version {after} is new");
                self.add(
                    false,
                    change,
                    "older documents are upgraded when they are read",
                );
            }
            _ => {}
        }
        self.of_composites(old, new);
        let is_upgraded = new.version.unwrap_or(1) > old.version.unwrap_or(1);
        for field in new.fields.iter().filter(|field| !field.is_computed) {
            self.of_field(name, old.field(field), field, is_upgraded);
        }
        for field in old.fields.iter().filter(|field| !field.is_computed) {
            if new.field(field).is_none() {
                let breaks = !field.optional && !is_upgraded;
                let change = format!("`{name}`: field {} is removed", field.name());
                let effect = if field.optional {
                    "its values are lost when a document is written, unless the type keeps unknown fields"
                } else {
                    unreadable(is_upgraded)
                };
                self.add(breaks, change, effect);
            }
        }
    }

    /// Compares computed properties, which no document stores.
    fn of_computed(&mut self, old: &Build, new: &Build) {
        for after in &new.computed_properties {
            let (name, query) = (&after.name, &after.query);
            match old.computed(name) {
                None => {
                    let change = format!("computed property `{name}` is new");
                    self.add(false, change, "`policy apply` adds it to the container");
                }
                Some(before) if before.query != *query => self.compare(
                    &format!("computed property `{name}`"),
                    &before.query,
                    query,
                    "queries of older programs by it find other documents, once the policy is applied",
                ),
                Some(_) => {}
            }
        }
        for before in &old.computed_properties {
            if new.computed(&before.name).is_none() {
                let change = format!("computed property `{}` is removed", before.name);
                self.add(false, change, "the container keeps it for older programs");
            }
        }
    }

    /// Compares composite indexes by their paths. Their names are names in the program.
    fn of_composites(&mut self, old: &DocumentType, new: &DocumentType) {
        let (name, before, after) = (&new.discriminator, old.composites(), new.composites());
        for added in after.difference(&before) {
            let change = format!("`{name}`: composite index ({added}) is new");
            self.add(false, change, "`policy apply` adds the index");
        }
        for removed in before.difference(&after) {
            let change = format!("`{name}`: composite index ({removed}) is removed");
            self.add(
                true,
                change,
                "the service refuses sorts of older programs by it, once the policy is applied",
            );
        }
    }

    fn of_field(&mut self, name: &str, old: Option<&Field>, new: &Field, is_upgraded: bool) {
        let path = new.name();
        let is_required = !new.optional && old.is_none_or(|old| old.optional);
        if is_required {
            let change = match old {
                None => format!("`{name}`: required field {path} is new"),
                Some(_) => format!("`{name}`: field {path} is required now"),
            };
            let effect = if is_upgraded {
                "an upcast has to provide it"
            } else {
                "stored documents without it are not read; add a version or a default"
            };
            self.add(!is_upgraded, change, effect);
        } else if old.is_none() {
            let change = format!("`{name}`: optional field {path} is new");
            self.add(false, change, "stored documents lack it");
        } else if new.optional && old.is_some_and(|old| !old.optional) {
            let change = format!("`{name}`: field {path} is optional now");
            self.add(!is_upgraded, change, unreadable(is_upgraded));
        }
        match (old.is_some_and(Field::is_indexed), new.is_indexed()) {
            (false, true) => {
                let change = format!("`{name}`: {path} is indexed");
                self.add(false, change, "`policy apply` adds the index");
            }
            (true, false) => {
                let change = format!("`{name}`: {path} is no longer indexed");
                self.add(
                    false,
                    change,
                    "queries of older programs by it scan, once the policy is applied",
                );
            }
            _ => {}
        }
    }

    fn compare(&mut self, what: &str, old: &str, new: &str, effect: &'static str) {
        if old != new {
            self.add(true, format!("{what} changes from {old} to {new}"), effect);
        }
    }

    fn add(&mut self, breaks: bool, what: String, effect: &'static str) {
        self.changes.push(Change {
            breaks,
            what,
            effect,
        });
    }
}

/// The effect of documents without a field that older programs require.
fn unreadable(is_upgraded: bool) -> &'static str {
    if is_upgraded {
        "older programs cannot read documents without it; let an upcast keep it until none runs"
    } else {
        "older programs cannot read documents without it; add a version"
    }
}

impl Build {
    /// Returns the unique keys of all types, which are those of the container.
    fn unique_keys(&self) -> Option<String> {
        let mut all = BTreeSet::new();
        for document in &self.types {
            let keys = document.unique_keys.as_ref()?.iter();
            all.extend(keys.map(|paths| {
                let paths: BTreeSet<&str> = paths.iter().map(String::as_str).collect();
                format!("({})", Vec::from_iter(paths).join(", "))
            }));
        }
        Some(format!("[{}]", Vec::from_iter(all).join(", ")))
    }

    /// Marks the fields that are computed properties.
    fn mark_computed(&mut self) {
        let computed = &self.computed_properties;
        for field in self.types.iter_mut().flat_map(|known| &mut known.fields) {
            let name = field.path.strip_prefix('/');
            field.is_computed = computed.iter().any(|one| Some(&*one.name) == name);
        }
    }

    fn computed(&self, name: &str) -> Option<&ComputedProperty> {
        self.computed_properties.iter().find(|one| one.name == name)
    }

    fn find(&self, discriminator: &str) -> Option<&DocumentType> {
        let mut types = self.types.iter();
        types.find(|known| known.discriminator == discriminator)
    }
}

impl DocumentType {
    fn composites(&self) -> BTreeSet<String> {
        let composites = self.composites.iter();
        composites.map(|one| one.paths.join(", ")).collect()
    }

    fn field(&self, other: &Field) -> Option<&Field> {
        self.fields
            .iter()
            .find(|field| field.name() == other.name())
    }
}

impl Field {
    /// The path without the mark of an indexed array.
    fn name(&self) -> &str {
        self.path.strip_suffix("/[]").unwrap_or(&self.path)
    }

    fn is_indexed(&self) -> bool {
        self.indexing == "indexed"
    }
}

impl fmt::Display for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Change {
            breaks,
            what,
            effect,
        } in &self.changes
        {
            let mark = if *breaks { "breaks" } else { "ok    " };
            writeln!(f, "{mark}  {what}: {effect}")?;
        }
        let breaks = self.changes.iter().filter(|change| change.breaks).count() as u64;
        write!(
            f,
            "{}, {breaks} of them breaking",
            counted(self.changes.len() as u64, "change")
        )
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A build whose type has these computed properties.
    fn build(computed: &[(&str, &str)]) -> Build {
        let fields = computed.iter().map(
            |(name, _)| json!({ "path": format!("/{name}"), "indexing": "none", "optional": true }),
        );
        let properties = computed
            .iter()
            .map(|(name, query)| json!({ "name": name, "query": query }));
        let described = json!({
            "partitionKey": ["/customer"],
            "discriminator": "type",
            "computedProperties": properties.collect::<Vec<_>>(),
            "types": [{
                "discriminator": "order", "id": "order", "composites": [],
                "fields": fields.collect::<Vec<_>>(),
            }],
        });
        let mut build: Build = serde_json::from_value(described).expect("a build");
        build.mark_computed();
        build
    }

    #[test]
    fn a_computed_property_is_compared_by_its_expression() {
        let old = build(&[("email", "lower"), ("name", "same"), ("total", "sum")]);
        let new = build(&[("email", "upper"), ("name", "same"), ("year", "part")]);
        let changes = Changes::between(&old, &new).to_string();
        let expected = "\
breaks  computed property `email` changes from lower to upper: queries of older programs by it find other documents, once the policy is applied
ok      computed property `year` is new: `policy apply` adds it to the container
ok      computed property `total` is removed: the container keeps it for older programs
3 changes, 1 of them breaking";
        assert_eq!(changes, expected);
    }
}
