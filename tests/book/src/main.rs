//! `cargo book`: makes the book out of docs/, and fails where it links to what is not there.

use std::path::Path;
use std::process::ExitCode;

use mdbook_driver::MDBook;

fn main() -> ExitCode {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    match MDBook::load(docs).and_then(|book| book.build().map(|()| book.build_dir_for("html"))) {
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
