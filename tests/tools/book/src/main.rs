//! `cargo book`: makes the book out of docs/ and the files that it links to, and fails if one is missing.
//! Beside its pages it writes their Markdown and `llms.txt`, for programs that read the book.

mod llms;
mod outside;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use mdbook_driver::MDBook;
use mdbook_driver::book::BookItem;
use mdbook_driver::builtin_renderers::MarkdownRenderer;
use mdbook_driver::errors::Result;

fn main() -> ExitCode {
    match build() {
        Ok(folder) => {
            println!("{}", folder.join("index.html").display());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("the book cannot be built: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn build() -> Result<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let docs = root.join("docs");
    let staged = root.join("target/book-source");
    outside::stage(&root, &staged)?;
    let book = MDBook::load(&staged)?;
    book.build()?;
    let folder = book.build_dir_for("html");
    // With the included files.
    let (whole, _) = book.preprocess_book(&MarkdownRenderer::new())?;
    for item in whole.iter() {
        let BookItem::Chapter(chapter) = item else {
            continue;
        };
        if let Some(path) = &chapter.path {
            fs::write(folder.join(path), &chapter.content)?;
        }
    }
    let contents = fs::read_to_string(docs.join("SUMMARY.md"))?;
    let page = |path: &str| fs::read_to_string(docs.join(path)).unwrap_or_default();
    fs::write(folder.join("llms.txt"), llms::llms(&contents, "", page))?;
    Ok(folder)
}
