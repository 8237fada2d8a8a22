//! Writes measurements into docs/performance.md: a text between two markers, and its plots.

use std::path::PathBuf;
use std::process::Command;

/// A section of the document.
#[derive(Debug)]
pub struct Report {
    /// The name in the markers.
    pub section: &'static str,
    /// The markdown between them.
    pub text: String,
    /// Files beside the document, and what is in them.
    pub plots: Vec<(String, String)>,
}

impl Report {
    /// Writes the section and its plots.
    pub fn write(&self) -> Result<(), String> {
        let docs = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs");
        let path = docs.join("performance.md");
        let document = std::fs::read_to_string(&path).map_err(|error| error.to_string())?;
        let text = format!("{}\n\n{}", self.text.trim_end(), measured_by());
        let document = replaced(&document, self.section, &text)?;
        std::fs::write(&path, document).map_err(|error| error.to_string())?;
        for (name, plot) in &self.plots {
            std::fs::write(docs.join(name), plot).map_err(|error| error.to_string())?;
        }
        Ok(())
    }
}

/// Names the command of this measurement and the commit that it measured.
fn measured_by() -> String {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let log = Command::new("git")
        .args(["log", "-1", "--format=%h (%cs)"])
        .output();
    let commit = log.map_or_else(
        |_| "of an unknown source".to_owned(),
        |output| String::from_utf8_lossy(&output.stdout).trim().to_owned(),
    );
    format!(
        "Measured by `cargo xtask bench-orch {}` at commit {commit}.",
        words.join(" ")
    )
}

/// Replaces the text between the markers of a section.
fn replaced(document: &str, section: &str, text: &str) -> Result<String, String> {
    let (begin, end) = (
        format!("<!-- bench:{section} -->"),
        format!("<!-- end:{section} -->"),
    );
    let missing = || format!("the page has no `{begin}` before an `{end}`");
    let (before, rest) = document.split_once(&begin).ok_or_else(missing)?;
    let (_, after) = rest.split_once(&end).ok_or_else(missing)?;
    Ok(format!(
        "{before}{begin}\n{}\n{end}{after}",
        text.trim_end()
    ))
}

/// Formats a figure with its significant digits.
pub fn number(value: f64) -> String {
    let digits = match value.abs() {
        size if size >= 100.0 => 0,
        size if size >= 1.0 || size == 0.0 => 1,
        _ => 2,
    };
    format!("{value:.digits$}")
}

/// Formats a figure, or a dash for `None`.
pub fn optional(value: Option<f64>) -> String {
    value.map_or_else(|| "–".to_owned(), number)
}

#[cfg(test)]
mod tests {
    use super::replaced;

    #[test]
    fn only_the_text_between_the_markers_changes() {
        let document = "a\n<!-- bench:x -->\nold\n<!-- end:x -->\nb\n";
        let changed = replaced(document, "x", "new\n");
        assert_eq!(
            changed.as_deref(),
            Ok("a\n<!-- bench:x -->\nnew\n<!-- end:x -->\nb\n")
        );
        assert!(replaced(document, "y", "new").is_err());
    }
}
