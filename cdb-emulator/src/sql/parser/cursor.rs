//! The parser's position, its limits, and its unresolved names.

use crate::protocol::ServiceError;
use crate::sql::error::{self, Location};
use crate::sql::lexer::{LocatedToken, Token, tokens};

/// Maximum nesting of expressions and sub-queries. The service has a limit too; this one protects
/// the stack.
const MAX_DEPTH: usize = 100;
/// The length of a chain of operators or property accesses that is not counted. `AND` and `OR` are
/// never counted: their chains are balanced trees.
const FREE_LINKS: usize = 4;
/// Maximum number of counted operators and property accesses of a query. A chain is a tree as deep
/// as it is long, and dropping the tree is recursive.
const MAX_LINKS: usize = 2000;

/// The keywords. They cannot be names, nor properties after a dot (use `c["value"]`).
const KEYWORDS: [&str; 25] = [
    "AND", "ARRAY", "AS", "ASC", "BETWEEN", "BY", "DESC", "DISTINCT", "ESCAPE", "EXISTS", "FROM",
    "GROUP", "IN", "JOIN", "LIKE", "LIMIT", "NOT", "OFFSET", "OR", "ORDER", "SELECT", "TOP", "UDF",
    "VALUE", "WHERE",
];

/// The constants, in lower case only.
const CONSTANTS: [&str; 4] = ["true", "false", "null", "undefined"];

pub(super) type Parsed<T> = Result<T, ServiceError>;

/// A name that was used before its binding was parsed.
pub(super) struct Unbound {
    pub(super) name: String,
    pub(super) location: Location,
}

pub(super) struct Parser<'a> {
    pub(super) text: &'a str,
    tokens: Vec<LocatedToken>,
    at: usize,
    depth: usize,
    links: usize,
    pub(super) unbound: Vec<Unbound>,
}

impl<'a> Parser<'a> {
    pub(super) fn new(text: &'a str) -> Parsed<Self> {
        Ok(Self {
            text,
            tokens: tokens(text)?,
            at: 0,
            depth: 0,
            links: 0,
            unbound: Vec::new(),
        })
    }

    fn current(&self) -> &LocatedToken {
        &self.tokens[self.at.min(self.tokens.len() - 1)]
    }

    pub(super) fn peek(&self) -> &Token {
        &self.current().token
    }

    /// Returns the location of the next token.
    pub(super) fn location(&self) -> Location {
        self.current().location.clone()
    }

    pub(super) fn next(&mut self) -> Token {
        let token = self.peek().clone();
        self.at = (self.at + 1).min(self.tokens.len() - 1);
        token
    }

    /// Returns the location from `start` to the end of the last token.
    pub(super) fn since(&self, start: &Location) -> Location {
        let end = self.tokens[self.at.saturating_sub(1)].location.end;
        start.start..end.max(start.end)
    }

    pub(super) fn unexpected(&self) -> ServiceError {
        error::syntax(self.text, self.location())
    }

    pub(super) fn is_word(&self, word: &str) -> bool {
        matches!(self.peek(), Token::Word(found) if found.eq_ignore_ascii_case(word))
    }

    pub(super) fn word(&mut self, word: &str) -> bool {
        let found = self.is_word(word);
        if found {
            self.next();
        }
        found
    }

    pub(super) fn expect_word(&mut self, word: &str) -> Parsed<()> {
        if self.word(word) {
            Ok(())
        } else {
            Err(self.unexpected())
        }
    }

    /// Returns whether the next token is `RANK` before a call of a function.
    pub(super) fn is_rank(&self) -> bool {
        let after = |count: usize| self.tokens.get(self.at + count).map(|next| &next.token);
        self.is_word("RANK")
            && matches!(after(1), Some(Token::Word(_)))
            && after(2) == Some(&Token::Symbol("("))
    }

    pub(super) fn is_symbol(&self, symbol: &str) -> bool {
        matches!(self.peek(), Token::Symbol(found) if *found == symbol)
    }

    pub(super) fn symbol(&mut self, symbol: &str) -> bool {
        let found = self.is_symbol(symbol);
        if found {
            self.next();
        }
        found
    }

    pub(super) fn expect(&mut self, symbol: &str) -> Parsed<()> {
        if self.symbol(symbol) {
            Ok(())
        } else {
            Err(self.unexpected())
        }
    }

    /// Returns whether the next token is a name and not a keyword.
    pub(super) fn is_name(&self) -> bool {
        matches!(self.peek(), Token::Word(word) if is_free(word))
    }

    pub(super) fn name(&mut self) -> Parsed<String> {
        if !self.is_name() {
            return Err(self.unexpected());
        }
        match self.next() {
            Token::Word(word) => Ok(word),
            _ => Err(self.unexpected()),
        }
    }

    pub(super) fn list<T>(
        &mut self,
        mut item: impl FnMut(&mut Self) -> Parsed<T>,
    ) -> Parsed<Vec<T>> {
        let mut items = vec![item(self)?];
        while self.symbol(",") {
            items.push(item(self)?);
        }
        Ok(items)
    }

    /// Rejects a token that cannot follow a query.
    pub(super) fn after_query(&self) -> Parsed<()> {
        match self.peek() {
            Token::End | Token::Symbol(")") => Ok(()),
            _ => Err(self.unexpected()),
        }
    }

    pub(super) fn end(&mut self) -> Parsed<()> {
        if *self.peek() != Token::End {
            return Err(self.unexpected());
        }
        match self.unbound.first() {
            None => Ok(()),
            Some(Unbound { name, location }) => {
                Err(error::unknown_name(self.text, location.clone(), name))
            }
        }
    }

    /// Parses with one more level of nesting.
    pub(super) fn nested<T>(&mut self, inner: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        let depth = self.depth;
        self.go_to_depth(depth + 1)?;
        let result = inner(self);
        self.depth = depth;
        result
    }

    /// Returns the current nesting.
    pub(super) fn depth(&self) -> usize {
        self.depth
    }

    pub(super) fn go_to_depth(&mut self, depth: usize) -> Parsed<()> {
        if depth > MAX_DEPTH {
            let cause = format!("The query nests deeper than {MAX_DEPTH} levels.");
            return Err(error::semantic(self.text, self.location(), &cause));
        }
        self.depth = depth;
        Ok(())
    }

    /// Counts link number `at` of a chain.
    pub(super) fn link(&mut self, at: usize) -> Parsed<()> {
        self.links += usize::from(at >= FREE_LINKS);
        if self.links <= MAX_LINKS {
            return Ok(());
        }
        let cause = format!(
            "The query has chains of more than {MAX_LINKS} operators and property accesses."
        );
        Err(error::semantic(self.text, self.location(), &cause))
    }

    /// Removes and returns the names used since `mark` that `bound` does not bind. An outer query
    /// may bind them.
    pub(super) fn resolve(&mut self, mark: usize, bound: &[String]) -> Vec<Unbound> {
        let mut rest = self.unbound.split_off(mark.min(self.unbound.len()));
        rest.retain(|used| !bound.contains(&used.name));
        rest
    }
}

/// Returns whether a word can be a name.
fn is_free(word: &str) -> bool {
    !CONSTANTS.contains(&word)
        && !KEYWORDS
            .iter()
            .any(|known| known.eq_ignore_ascii_case(word))
}

/// Returns whether a text is a valid name.
pub(in crate::sql) fn is_name(text: &str) -> bool {
    let letters = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.chars().all(letters)
        && !text.starts_with(|c: char| c.is_ascii_digit())
        && !text.is_empty()
        && is_free(text)
}
