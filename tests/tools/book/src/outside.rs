//! Copies of files outside of docs/ that the pages of the book link to. A copy of a Markdown file is a
//! page of the section "Reference", any other copy a file beside the pages.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Component, Path, PathBuf};
use std::{fs, io};

/// The folder of the book in the repository.
const BOOK: &str = "docs";

/// Returns the place in the book of a file of the repository, both as paths from their roots.
pub(crate) fn place(file: &str) -> String {
    if let Some(page) = file.strip_prefix("docs/") {
        return page.to_owned();
    }
    let is_page = Path::new(file).extension().is_some_and(|it| it == "md");
    let folder = if is_page { "reference" } else { "files" };
    format!("{folder}/{}", file.replace('/', "-"))
}

/// Rewrites the links of a page, the file `page` of the repository, to places in the book. Returns the
/// text, and the linked files outside of the book.
pub(crate) fn rewritten(page: &str, text: &str) -> (String, BTreeSet<String>) {
    let folder = Path::new(page).parent().unwrap_or(Path::new(""));
    let depth = place(page).matches('/').count();
    let (mut out, mut outside) = (String::new(), BTreeSet::new());
    let mut is_code = false;
    for line in text.split_inclusive('\n') {
        if line.starts_with("```") {
            is_code = !is_code;
        }
        let mut rest = line;
        while !is_code && let Some(at) = rest.find("](") {
            let (before, link) = rest.split_at(at + 2);
            out.push_str(before);
            let end = link.find([')', '#']).unwrap_or(link.len());
            let (target, after) = link.split_at(end);
            rest = after;
            let file = normal(&folder.join(target));
            if target.is_empty() || target.contains("://") || file.is_none() {
                out.push_str(target);
                continue;
            }
            let file = file.unwrap_or_default();
            out.push_str(&"../".repeat(depth));
            out.push_str(&place(&file));
            if !file.starts_with("docs/") {
                outside.insert(file);
            }
        }
        out.push_str(rest);
    }
    (out, outside)
}

/// Returns a path from the root without `..`; `None` if it leaves the root.
fn normal(path: &Path) -> Option<String> {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                parts.pop()?;
            }
            Component::Normal(name) => parts.push(name.to_str()?),
            _ => {}
        }
    }
    Some(parts.join("/"))
}

/// Copies the book with all that it links to into `staged`, from which mdBook builds it.
///
/// # Errors
/// Fails when a linked file is missing or is a folder, or a copy cannot be written.
pub(crate) fn stage(root: &Path, staged: &Path) -> io::Result<()> {
    if staged.exists() {
        fs::remove_dir_all(staged)?;
    }
    let mut waiting: BTreeSet<String> = files(root, BOOK)?;
    let mut done = BTreeSet::new();
    let mut contents = String::from("\n# Reference\n\n");
    while let Some(file) = waiting.pop_first() {
        if !done.insert(file.clone()) {
            continue;
        }
        let from = root.join(&file);
        let to = staged.join(place(&file));
        fs::create_dir_all(to.parent().unwrap_or(staged))?;
        if from.extension().is_none_or(|it| it != "md") {
            fs::copy(&from, &to)?;
            continue;
        }
        let text = fs::read_to_string(&from)?;
        let (mut text, outside) = rewritten(&file, &text);
        waiting.extend(outside);
        if !file.starts_with("docs/") {
            if !text.trim_start().starts_with("# ") {
                text = format!("# {file}\n{text}");
            }
            writeln!(contents, "- [{file}]({})", place(&file)).expect("a string takes all text");
        }
        fs::write(to, text)?;
    }
    let summary = staged.join("SUMMARY.md");
    let text = fs::read_to_string(&summary)? + &contents;
    fs::write(summary, text)?;
    // The paths in it are relative to the folder of the book.
    let settings = staged.join("book.toml");
    let text = fs::read_to_string(&settings)?.replace("../target/book", "../book");
    fs::write(settings, text)
}

/// Returns all files below a folder, as paths from the root.
fn files(root: &Path, below: &str) -> io::Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    let mut folders = vec![PathBuf::from(below)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root.join(&folder))? {
            let path = folder.join(entry?.file_name());
            if root.join(&path).is_dir() {
                folders.push(path);
            } else {
                found.extend(normal(&path));
            }
        }
    }
    Ok(found)
}
