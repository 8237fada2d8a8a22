//! What `cargo metadata` says of the crates that are published.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::{Failure, Findings, output};

/// The members of the workspace.
#[derive(Deserialize)]
pub(crate) struct Workspace {
    packages: Vec<Package>,
}

/// A member of the workspace.
#[derive(Deserialize)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) version: String,
    manifest_path: PathBuf,
    description: Option<String>,
    documentation: Option<String>,
    license: Option<String>,
    readme: Option<String>,
    pub(crate) repository: Option<String>,
    rust_version: Option<String>,
    keywords: Vec<String>,
    categories: Vec<String>,
    dependencies: Vec<Dependency>,
    /// The registries that it may be published to; `None` is any.
    publish: Option<Vec<String>>,
    metadata: Option<serde_json::Value>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    kind: Option<String>,
    req: String,
    path: Option<PathBuf>,
    source: Option<String>,
}

impl Workspace {
    pub(crate) fn read(root: &Path) -> Result<Self, Failure> {
        let arguments = ["metadata", "--no-deps", "--format-version", "1", "--locked"];
        Ok(serde_json::from_str(&output(
            root,
            env!("CARGO"),
            &arguments,
        )?)?)
    }

    /// Orders the published packages so that each follows those that it depends on, also in its
    /// tests, whose dependencies the registry resolves as well.
    pub(crate) fn publication_order(&self) -> Result<Vec<&Package>, Failure> {
        let published = self.packages.iter();
        let mut waiting: Vec<&Package> = published
            .filter(|package| package.publish.is_none())
            .collect();
        let mut order = Vec::new();
        while !waiting.is_empty() {
            let ready = waiting.iter().position(|package| {
                let needs = |other: &&&Package| package.depends_on(other);
                !waiting.iter().any(|other| needs(&other))
            });
            let ready = ready.ok_or("the crates depend on each other in a circle")?;
            order.push(waiting.remove(ready));
        }
        Ok(order)
    }
}

impl Package {
    pub(crate) fn folder(&self) -> &Path {
        self.manifest_path.parent().unwrap_or(Path::new("."))
    }

    fn depends_on(&self, other: &Package) -> bool {
        self.name != other.name
            && self.dependencies.iter().any(|dependency| {
                // A path without a version is removed from the dependencies of tests.
                dependency.name == other.name && dependency.req != "*"
            })
    }

    /// Checks what the registry and its readers need.
    pub(crate) fn check(&self, found: &mut Findings) {
        let name = &*self.name;
        let mut require = |holds: bool, what: &str| {
            if !holds {
                found.faults.push(format!("{name}/Cargo.toml: {what}"));
            }
        };
        require(
            self.license.as_deref() == Some("MIT"),
            "`license` is not MIT, as LICENSE says",
        );
        require(self.description.is_some(), "no `description`");
        require(self.readme.is_some(), "no `readme`");
        require(self.rust_version.is_some(), "no `rust-version`");
        let pages = format!("https://docs.rs/{name}");
        require(
            self.documentation == Some(pages),
            "`documentation` is not its page of docs.rs",
        );
        require(
            (1..=5).contains(&self.keywords.len()),
            "`keywords` has not one to five words",
        );
        require(!self.categories.is_empty(), "no `categories`");
        let docs = self
            .metadata
            .as_ref()
            .map(|metadata| &metadata["docs"]["rs"]);
        require(
            docs.is_some_and(serde_json::Value::is_object),
            "no `package.metadata.docs.rs`",
        );
        for dependency in &self.dependencies {
            let of_tests = dependency.kind.as_deref() == Some("dev");
            let local = dependency.path.is_some() && dependency.req == "*" && !of_tests;
            let git = dependency
                .source
                .as_deref()
                .is_some_and(|source| source.starts_with("git+"));
            if local || git {
                let what = format!("`{}` has no version of the registry", dependency.name);
                require(false, &what);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workspace(packages: &[serde_json::Value]) -> Workspace {
        serde_json::from_value(serde_json::json!({ "packages": packages })).expect("packages")
    }

    fn package(name: &str, dependencies: &serde_json::Value) -> serde_json::Value {
        serde_json::json!({
            "name": name, "version": "0.1.0", "manifest_path": "Cargo.toml", "description": "d",
            "documentation": format!("https://docs.rs/{name}"), "license": "MIT", "readme": "README.md",
            "repository": "https://example.com", "rust_version": "1.89", "keywords": ["a"],
            "categories": ["database"], "dependencies": dependencies, "publish": null,
            "metadata": { "docs": { "rs": {} } },
        })
    }

    #[test]
    fn a_crate_is_published_after_its_dependencies() {
        let on = |name| serde_json::json!([{ "name": name, "kind": null, "req": "^0.1.0", "path": "/x" }]);
        let mut private = package("private", &serde_json::json!([]));
        private["publish"] = serde_json::json!([]);
        let crates = [
            package("top", &on("middle")),
            package("middle", &on("leaf")),
            package("leaf", &serde_json::json!([])),
            private,
        ];
        let workspace = workspace(&crates);
        let order = workspace.publication_order().expect("no circle");
        let names: Vec<&str> = order.iter().map(|package| &*package.name).collect();
        assert_eq!(names, ["leaf", "middle", "top"]);
    }

    #[test]
    fn missing_metadata_is_named() {
        let path_only =
            serde_json::json!([{ "name": "y", "kind": null, "req": "*", "path": "/y" }]);
        let mut incomplete = package("x", &path_only);
        incomplete["license"] = "Apache-2.0".into();
        let workspace = workspace(&[incomplete, package("good", &serde_json::json!([]))]);
        let mut found = Findings::default();
        workspace
            .packages
            .iter()
            .for_each(|package| package.check(&mut found));
        assert_eq!(found.faults.len(), 2, "{:?}", found.faults);
        assert!(
            found.faults[0].contains("license") && found.faults[1].contains("`y` has no version")
        );
    }
}
