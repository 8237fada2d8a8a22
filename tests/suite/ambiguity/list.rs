//! The list of writes in `writes.md` is complete, and the tests that the pages on reliability
//! name exist.

use std::path::Path;

/// Calls that send a write, in code without white space and comments, with `container()` shortened
/// to `container`.
const WRITES: [&str; 11] = [
    ".execute(&",
    ".execute_bulk(&",
    "container.create(",
    "container.ensure(",
    "container.patch(",
    "container.patch_stored(",
    "container.replace_if_match(",
    "container.delete_stored(",
    "cdb_coordination::lease::lock(",
    "renew_lock(services.container,",
    "renew_lock(&store.container,",
];

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// All Rust files below a folder.
fn sources(folder: &Path, found: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder can be listed") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn every_provider_file_that_writes_is_listed() {
    let list = read(&root().join("tests/suite/ambiguity/writes.md"));
    let provider = root().join("provider/src");
    let mut files = Vec::new();
    sources(&provider, &mut files);
    let writes = |text: &str| {
        let lines = text.lines().map(str::trim);
        let code = lines.filter(|line| !line.starts_with("//"));
        let text: String = code.flat_map(str::split_whitespace).collect();
        let text = text.replace("container()", "container");
        WRITES.iter().any(|write| text.contains(write))
    };
    let missing: Vec<String> = files
        .iter()
        .filter(|path| writes(&read(path)))
        .map(|path| {
            path.strip_prefix(&provider)
                .expect("below")
                .display()
                .to_string()
        })
        .filter(|name| !list.contains(&format!("`{name}`")))
        .collect();
    assert!(
        missing.is_empty(),
        "add these files to tests/suite/ambiguity/writes.md: {missing:?}"
    );
}

#[test]
fn every_test_that_the_docs_name_exists() {
    let pages = ["docs/reliability.md", "tests/suite/ambiguity/writes.md"];
    let list: String = pages.map(|page| read(&root().join(page))).concat();
    let mut files = Vec::new();
    for folder in ["tests", "cdb-coordination/tests"] {
        sources(&root().join(folder), &mut files);
    }
    let tests: String = files.iter().map(|path| read(path)).collect();
    let named = list.split('`').filter(|word| {
        let is_name = |c: char| c.is_ascii_lowercase() || c == '_';
        word.matches('_').count() >= 3 && word.chars().all(is_name)
    });
    let missing: Vec<&str> = named.filter(|name| !tests.contains(name)).collect();
    assert!(missing.is_empty(), "no such test: {missing:?}");
}
