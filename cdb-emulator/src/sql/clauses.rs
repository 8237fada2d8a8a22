//! Where the clauses of a query are in its text, so that a rewritten query can quote them.
//!
//! Only for texts that parse. A word is the beginning of a clause when no bracket is open and neither a dot nor `AS`
//! stands before it: those make it a name.

use super::lexer::{Placed, Token, tokens};
use super::parser::is_name;
use crate::error::ServiceError;

/// The parts of a query, as they are written.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Clauses<'a> {
    /// The expressions of the select list without their aliases; none for `*`.
    pub(crate) projection: Vec<Item<'a>>,
    /// The whole select list, aliases and all.
    pub(crate) list: &'a str,
    /// What follows `FROM`; none for a query of constants.
    pub(crate) from: Option<&'a str>,
    pub(crate) filter: Option<&'a str>,
    pub(crate) group_by: Vec<&'a str>,
    /// The whole clause without its keywords, and the expressions in it.
    pub(crate) order_by: Option<(&'a str, Vec<&'a str>)>,
}

/// An expression of the select list.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Item<'a> {
    pub(crate) text: &'a str,
    /// Name (in capitals) and arguments, when the expression is a call and nothing else.
    pub(crate) call: Option<(String, &'a str)>,
}

const STARTS: [&str; 7] = [
    "SELECT", "FROM", "WHERE", "GROUP", "ORDER", "OFFSET", "LIMIT",
];

/// Finds the clauses.
pub(crate) fn clauses(text: &str) -> Result<Clauses<'_>, ServiceError> {
    let tokens = tokens(text)?;
    let whole = Part {
        text,
        tokens: &tokens,
    };
    let mut found = Clauses::default();
    let starts = whole.starts();
    for (at, start) in starts.iter().enumerate() {
        let end = starts.get(at + 1).copied().unwrap_or(tokens.len() - 1);
        let (word, body) = (whole.keyword(*start), whole.cut(start + 1, end));
        match word.as_deref() {
            Some("SELECT") => {
                let list = body.select_list();
                found.list = list.source();
                found.projection = list.projection();
            }
            Some("FROM") => found.from = Some(body.source()),
            Some("WHERE") => found.filter = Some(body.source()),
            Some("GROUP") => {
                found.group_by = body.after("BY").list().map(|item| item.source()).collect();
            }
            Some("ORDER") => {
                let body = body.after("BY");
                let items = body.list().map(|item| item.without_direction().source());
                found.order_by = Some((body.source(), items.collect()));
            }
            _ => {}
        }
    }
    Ok(found)
}

/// Some tokens of a text; there is always one behind them.
#[derive(Clone, Copy)]
struct Part<'a, 't> {
    text: &'a str,
    tokens: &'t [Placed],
}

impl<'a> Part<'a, '_> {
    fn cut(&self, from: usize, to: usize) -> Self {
        Self {
            text: self.text,
            tokens: &self.tokens[from..=to.max(from)],
        }
    }

    fn len(&self) -> usize {
        self.tokens.len() - 1
    }

    /// The text from the first token to the one behind the last.
    fn source(&self) -> &'a str {
        let (from, to) = (
            self.tokens[0].place.start,
            self.tokens[self.len()].place.start,
        );
        self.text[from..to].trim_end()
    }

    fn keyword(&self, at: usize) -> Option<String> {
        match &self.tokens.get(at)?.token {
            Token::Word(word) => Some(word.to_ascii_uppercase()),
            _ => None,
        }
    }

    fn symbol(&self, at: usize) -> Option<&'static str> {
        match self.tokens[at].token {
            Token::Symbol(symbol) => Some(symbol),
            _ => None,
        }
    }

    /// The places that no bracket encloses.
    fn outside(&self) -> impl Iterator<Item = usize> {
        let mut depth = 0_usize;
        (0..self.len()).filter(move |at| {
            match self.symbol(*at) {
                Some("(" | "[" | "{") => depth += 1,
                Some(")" | "]" | "}") => depth = depth.saturating_sub(1),
                _ => return depth == 0,
            }
            false
        })
    }

    fn starts(&self) -> Vec<usize> {
        let is_name = |at: usize| {
            at > 0
                && (self.symbol(at - 1) == Some(".")
                    || self.keyword(at - 1).as_deref() == Some("AS"))
        };
        let is_start = |at: usize| {
            self.keyword(at)
                .is_some_and(|word| STARTS.contains(&&*word))
        };
        self.outside()
            .filter(|at| is_start(*at) && !is_name(*at))
            .collect()
    }

    /// The parts between the commas.
    fn list(self) -> impl Iterator<Item = Self> {
        let mut edges: Vec<usize> = self
            .outside()
            .filter(|at| self.symbol(*at) == Some(","))
            .collect();
        edges.push(self.len());
        let mut from = 0;
        edges.into_iter().map(move |to| {
            let item = self.cut(from, to);
            from = to + 1;
            item
        })
    }

    fn after(self, word: &str) -> Self {
        if self.keyword(0).as_deref() == Some(word) {
            self.cut(1, self.len())
        } else {
            self
        }
    }

    fn without_direction(self) -> Self {
        let last = self.len().saturating_sub(1);
        match self.keyword(last).as_deref() {
            Some("ASC" | "DESC") if last > 0 && self.symbol(last - 1) != Some(".") => {
                self.cut(0, last)
            }
            _ => self,
        }
    }

    /// What follows `SELECT DISTINCT TOP n VALUE`.
    fn select_list(self) -> Self {
        let mut list = self.after("DISTINCT");
        if list.keyword(0).as_deref() == Some("TOP") {
            list = list.cut(2, list.len());
        }
        list.after("VALUE")
    }

    fn projection(self) -> Vec<Item<'a>> {
        if self.symbol(0) == Some("*") {
            return Vec::new();
        }
        let items = self.list();
        items.map(|item| item.without_alias().item()).collect()
    }

    /// An alias follows `AS`, or directly something that ends an expression.
    fn without_alias(self) -> Self {
        let Some(before) = self.len().checked_sub(2) else {
            return self;
        };
        if !matches!(self.tokens[before + 1].token, Token::Word(_)) {
            return self;
        }
        match &self.tokens[before].token {
            Token::Word(word) if word.eq_ignore_ascii_case("AS") => self.cut(0, before),
            Token::Word(word) if !is_name(word) => self,
            Token::Symbol(")" | "]" | "}") => self.cut(0, before + 1),
            Token::Symbol(_) | Token::End => self,
            _ => self.cut(0, before + 1),
        }
    }

    fn item(self) -> Item<'a> {
        let closes = self.len() > 2
            && self.symbol(1) == Some("(")
            && self.symbol(self.len() - 1) == Some(")")
            && self.outside().count() == 1;
        let name = self.keyword(0).filter(|_| closes);
        Item {
            text: self.source(),
            call: name.map(|name| (name, self.cut(2, self.len() - 1).source())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts<'a>(clauses: &Clauses<'a>) -> Vec<&'a str> {
        clauses.projection.iter().map(|item| item.text).collect()
    }

    #[test]
    fn clauses_are_quoted_as_they_are_written() {
        let found = clauses(
            "select top 3 c.a AS x, c[\"b\"] y, {from: c.order} , COUNT( 1 ) n FROM root c JOIN t IN c.tags \
             WHERE c.limit = (1) AND EXISTS (SELECT VALUE u FROM u IN c.us WHERE u = 'ORDER BY')\n\
             GROUP BY c.a, LOWER(c.b, 1) ORDER BY c.a DESC, c.desc OFFSET 1 LIMIT 2",
        )
        .unwrap();
        assert_eq!(
            texts(&found),
            ["c.a", "c[\"b\"]", "{from: c.order}", "COUNT( 1 )"]
        );
        assert_eq!(found.projection[3].call, Some(("COUNT".to_owned(), "1")));
        assert_eq!(found.from, Some("root c JOIN t IN c.tags"));
        assert_eq!(
            found.filter,
            Some("c.limit = (1) AND EXISTS (SELECT VALUE u FROM u IN c.us WHERE u = 'ORDER BY')")
        );
        assert_eq!(found.group_by, ["c.a", "LOWER(c.b, 1)"]);
        assert_eq!(
            found.order_by,
            Some(("c.a DESC, c.desc", vec!["c.a", "c.desc"]))
        );
    }

    #[test]
    fn an_expression_is_a_call_only_when_it_is_nothing_else() {
        let calls = |text: &str| -> Vec<bool> {
            let found = clauses(text).unwrap();
            found
                .projection
                .iter()
                .map(|item| item.call.is_some())
                .collect()
        };
        assert_eq!(calls("SELECT VALUE SUM(c.a) FROM c"), [true]);
        assert_eq!(
            calls("SELECT SUM(c.a) + 1, (SUM(c.a)), SUM(c.a) - (1), NOT c.a FROM c"),
            [false; 4]
        );
        assert_eq!(calls("SELECT DISTINCT TOP 5 VALUE c.a FROM c"), [false]);
    }

    #[test]
    fn everything_and_constants_have_no_list_and_no_source() {
        let all = clauses("SELECT * FROM c").unwrap();
        assert!(all.projection.is_empty());
        assert_eq!(clauses("SELECT 1").unwrap().from, None);
    }
}
