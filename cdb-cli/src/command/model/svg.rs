//! The model as an SVG picture: one box per document type, in columns below the box of the
//! container.
//!
//! The colours follow the viewer's colour scheme. The width of a text is its number of characters
//! times the width of a character of a fixed-width font.

use super::described::{Described, Indexing, Type};

const LINE: usize = 18;
/// The width of a character in tenths of a pixel, for fixed-width text of 12 pixels.
const CHARACTER: usize = 74;
const MARGIN: usize = 12;
const GAP: usize = 16;
const COLUMNS: usize = 3;

const STYLE: &str = "<style>
  text { font: 12px ui-monospace, 'DejaVu Sans Mono', monospace; fill: #1b1f24; white-space: pre; }
  .name { font-weight: 600; } .faint { fill: #57606a; } .indexed { fill: #0b5cad; }
  rect { fill: #f4f6f8; stroke: #d3d9e0; } .ground { fill: #fff; stroke: none; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6e9ed; } .faint { fill: #9aa4b0; } .indexed { fill: #6cb2ff; }
    rect { fill: #1d2127; stroke: #353c45; } .ground { fill: #14171b; }
  }
</style>
";

/// The lines of a box, each with its CSS class.
struct Card(Vec<(&'static str, String)>);

impl Card {
    fn of_container(of: &Described) -> Self {
        Self(vec![
            ("name", of.container.to_owned()),
            (
                "faint",
                format!(
                    "partition key {}, type in `{}`; + has an index, # is the partition key",
                    of.partition_key.join(", "),
                    of.discriminator
                ),
            ),
        ])
    }

    fn of_type(of: &Type) -> Self {
        let mut lines = vec![
            ("name", format!("{} (`{}`)", of.name, of.discriminator)),
            ("faint", of.id.clone()),
        ];
        for field in &of.fields {
            let path = field.path.trim_start_matches('/').replace('/', ".");
            lines.push(match field.indexing {
                Indexing::PartitionKey => ("indexed", format!("# {path}")),
                Indexing::Indexed => ("indexed", format!("+ {path}")),
                Indexing::Excluded | Indexing::None => ("", format!("  {path}")),
            });
        }
        for composite in &of.composites {
            let line = format!("{} ({})", composite.name, composite.paths.join(", "));
            lines.push(("faint", line));
        }
        Self(lines)
    }

    fn width(&self) -> usize {
        let longest = self.0.iter().map(|(_, text)| text.chars().count()).max();
        longest.unwrap_or_default() * CHARACTER / 10 + 2 * MARGIN
    }

    fn height(&self) -> usize {
        self.0.len() * LINE + MARGIN
    }

    fn draw(&self, (x, y): (usize, usize), width: usize) -> String {
        let height = self.height();
        let frame =
            format!("<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" rx=\"6\"/>\n");
        let lines = self.0.iter().enumerate().map(|(number, (class, text))| {
            let (x, y) = (x + MARGIN, y + (number + 1) * LINE);
            let text = escaped(text);
            format!("<text x=\"{x}\" y=\"{y}\" class=\"{class}\">{text}</text>\n")
        });
        std::iter::once(frame).chain(lines).collect()
    }
}

/// Escapes a text for XML.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

/// Draws the picture.
pub(super) fn svg(of: &Described) -> String {
    let head = Card::of_container(of);
    let cards: Vec<Card> = of.types.iter().map(Card::of_type).collect();
    let widest = cards.iter().map(Card::width).max().unwrap_or_default();
    let count = cards.len().clamp(1, COLUMNS);
    let width = (count * (widest + GAP) - GAP).max(head.width());
    let mut bottoms = vec![head.height() + 2 * GAP; count];
    let mut drawn = head.draw((GAP, GAP), width);
    for card in &cards {
        // The shortest column, so that the columns have similar heights.
        let shortest = (0..count).min_by_key(|&column| bottoms[column]);
        let column = shortest.unwrap_or_default();
        let x = GAP + column * (widest + GAP);
        drawn.push_str(&card.draw((x, bottoms[column]), widest));
        bottoms[column] += card.height() + GAP;
    }
    let height = bottoms.into_iter().max().unwrap_or_default();
    let width = width + 2 * GAP;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" role=\"img\" \
         aria-label=\"document types of {}\">\n{STYLE}<rect class=\"ground\" width=\"{width}\" height=\"{height}\"/>\n{drawn}</svg>",
        escaped(of.container)
    )
}
