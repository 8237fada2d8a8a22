//! Tables, and the texts in their cells.

/// The last line of a list that has more pages. A start of a page is long, so only JSON shows it.
pub(crate) const MORE: &str =
    "more follow; --limit lists up to 1000, --json shows the next page's --from";

/// Aligns the columns of rows. The last column is not padded.
pub(crate) fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let mut widths: Vec<usize> = head.iter().map(|name| name.chars().count()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let mut text = String::new();
        for (cell, &width) in cells.zip(&widths) {
            text.push_str(cell);
            let padding = width.saturating_sub(cell.chars().count()) + 2;
            text.extend(std::iter::repeat_n(' ', padding));
        }
        text.trim_end().to_owned() + "\n"
    };
    let mut text = line(&mut head.iter().copied());
    for row in rows {
        text.push_str(&line(&mut row.iter().map(String::as_str)));
    }
    text
}

/// Returns a number and the noun that it counts: `1 instance`, `2 instances`.
pub(crate) fn counted(count: u64, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{plural}")
}

/// Returns a text on one line, cut to `most` characters.
pub(crate) fn short(text: &str, most: usize) -> String {
    let mut kept: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(most)
        .collect();
    if text.chars().nth(most).is_some() {
        kept.pop();
        kept.push('…');
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_by_characters_and_not_by_bytes() {
        let rows = [
            vec!["é".to_owned(), "1".to_owned()],
            vec!["abc".to_owned(), String::new()],
        ];
        assert_eq!(table(&["a", "n"], &rows), "a    n\né    1\nabc\n");
    }

    #[test]
    fn a_cell_is_one_line_and_is_cut() {
        assert_eq!(short("a\x1b[2Jb\nc", 20), "a [2Jb c");
        assert_eq!(short("abcdef", 4), "abc…");
        assert_eq!(short("abcd", 4), "abcd");
    }
}
