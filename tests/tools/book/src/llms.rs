//! `llms.txt`: the pages of the book for programs that read it, in the form of llmstxt.org. A page's
//! title and section come from the table of contents, its note is the question that it answers. One
//! is beside the pages of the book, one at the root of the repository.

use std::fmt::Write as _;

/// Makes the file out of the table of contents; `folder` is the path from the file to the pages, and
/// `page` returns the text of a page by its path.
pub(crate) fn llms(contents: &str, folder: &str, page: impl Fn(&str) -> String) -> String {
    let mut text = String::new();
    for line in contents.lines() {
        if let Some(section) = line
            .strip_prefix("# ")
            .filter(|section| *section != "Summary")
        {
            write!(text, "\n## {section}\n\n").expect("a string takes all text");
            continue;
        }
        let Some((title, path)) = link(line) else {
            continue;
        };
        let words = page(path);
        if text.is_empty() {
            // The first page is the book itself.
            let about = answer(&words);
            write!(text, "# {title}\n\n> {about}\n").expect("a string takes all text");
            continue;
        }
        let question = question(&words);
        writeln!(text, "- [{title}]({folder}{path}): {question}").expect("a string takes all text");
    }
    text
}

/// Reads a link of the table of contents: `- [Title](path.md)`.
pub(crate) fn link(line: &str) -> Option<(&str, &str)> {
    let line = line.trim_start_matches(['-', ' ']).strip_prefix('[')?;
    let (title, rest) = line.split_once("](")?;
    Some((title, rest.strip_suffix(')')?))
}

/// Returns the question that a page answers: its first bold text.
fn question(page: &str) -> String {
    let bold = page.split("**").nth(1).unwrap_or_default();
    in_one_line(bold)
}

/// Returns the rest of the paragraph behind the question.
fn answer(page: &str) -> String {
    let rest = page.split("**").nth(2).unwrap_or_default();
    in_one_line(rest.split("\n\n").next().unwrap_or_default())
}

fn in_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
