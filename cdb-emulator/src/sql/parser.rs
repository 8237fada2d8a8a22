//! Tokens to tree, by recursive descent; operators by how tightly they bind.

use serde_json::Value;

use super::ast::{Binary, Expr, Join, OrderItem, Projection, Select, Unary};
use super::lexer::{Placed, Token, tokens, unexpected};
use crate::error::ServiceError;

/// How deep expressions may nest. The service has a limit too; ours keeps the stack safe.
const MAX_DEPTH: usize = 100;
/// How many operators and property accesses a query may chain. A chain leans to the left as deep as it is long, and the
/// tree is dropped by recursion.
const MAX_LINKS: usize = 2000;
/// How tightly comparisons, `IN`, `BETWEEN` and `LIKE` bind.
const COMPARISON: usize = 3;

/// Words that cannot be an alias without `AS`.
pub(super) const RESERVED: [&str; 20] = [
    "SELECT", "FROM", "WHERE", "GROUP", "ORDER", "BY", "OFFSET", "LIMIT", "JOIN", "IN", "AS",
    "AND", "OR", "NOT", "BETWEEN", "LIKE", "TOP", "VALUE", "DISTINCT", "EXISTS",
];

/// Parses a query.
pub(crate) fn parse(text: &str) -> Result<Select, ServiceError> {
    let mut parser = Parser {
        text,
        tokens: tokens(text)?,
        at: 0,
        depth: 0,
        links: 0,
    };
    let select = parser.select()?;
    match parser.peek() {
        Token::End => Ok(select),
        _ => Err(parser.unexpected()),
    }
}

struct Parser<'a> {
    text: &'a str,
    tokens: Vec<Placed>,
    at: usize,
    depth: usize,
    links: usize,
}

type Parsed<T> = Result<T, ServiceError>;

impl Parser<'_> {
    fn peek(&self) -> &Token {
        &self.tokens[self.at.min(self.tokens.len() - 1)].token
    }

    fn next(&mut self) -> Token {
        let token = self.peek().clone();
        self.at = (self.at + 1).min(self.tokens.len() - 1);
        token
    }

    fn unexpected(&self) -> ServiceError {
        unexpected(
            self.text,
            self.tokens[self.at.min(self.tokens.len() - 1)].at,
        )
    }

    fn is_word(&self, word: &str) -> bool {
        matches!(self.peek(), Token::Word(found) if found.eq_ignore_ascii_case(word))
    }

    fn word(&mut self, word: &str) -> bool {
        let found = self.is_word(word);
        if found {
            self.next();
        }
        found
    }

    fn expect_word(&mut self, word: &str) -> Parsed<()> {
        if self.word(word) {
            Ok(())
        } else {
            Err(self.unexpected())
        }
    }

    fn symbol(&mut self, symbol: &str) -> bool {
        let found = matches!(self.peek(), Token::Symbol(found) if *found == symbol);
        if found {
            self.next();
        }
        found
    }

    fn expect(&mut self, symbol: &str) -> Parsed<()> {
        if self.symbol(symbol) {
            Ok(())
        } else {
            Err(self.unexpected())
        }
    }

    fn name(&mut self) -> Parsed<String> {
        let Token::Word(word) = self.peek().clone() else {
            return Err(self.unexpected());
        };
        self.next();
        Ok(word)
    }

    fn select(&mut self) -> Parsed<Select> {
        self.expect_word("SELECT")?;
        let distinct = self.word("DISTINCT");
        let top = if self.word("TOP") {
            Some(self.primary()?)
        } else {
            None
        };
        let projection = self.projection()?;
        let (alias, joins) = self.from()?;
        let filter = if self.word("WHERE") {
            Some(self.expr()?)
        } else {
            None
        };
        let mut group_by = Vec::new();
        if self.word("GROUP") {
            self.expect_word("BY")?;
            group_by = self.list(Self::expr)?;
        }
        let mut order_by = Vec::new();
        if self.word("ORDER") {
            self.expect_word("BY")?;
            order_by = self.list(|parser| {
                let expr = parser.expr()?;
                let descending = parser.word("DESC");
                if !descending {
                    parser.word("ASC");
                }
                Ok(OrderItem { expr, descending })
            })?;
        }
        let offset = if self.word("OFFSET") {
            Some(self.primary()?)
        } else {
            None
        };
        let limit = if self.word("LIMIT") {
            Some(self.primary()?)
        } else {
            None
        };
        Ok(Select {
            distinct,
            top,
            projection,
            alias,
            joins,
            filter,
            group_by,
            order_by,
            offset,
            limit,
        })
    }

    fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Parsed<T>) -> Parsed<Vec<T>> {
        let mut items = vec![item(self)?];
        while self.symbol(",") {
            items.push(item(self)?);
        }
        Ok(items)
    }

    fn projection(&mut self) -> Parsed<Projection> {
        if self.symbol("*") {
            return Ok(Projection::Star);
        }
        if self.word("VALUE") {
            return Ok(Projection::Value(self.expr()?));
        }
        let mut unnamed = 0;
        let fields = self.list(|parser| {
            let expr = parser.expr()?;
            let explicit = parser.word("AS");
            let named = explicit
                || matches!(parser.peek(), Token::Word(word)
                    if !RESERVED.contains(&&*word.to_ascii_uppercase()));
            let name = if named {
                parser.name()?
            } else if let Expr::Member(_, key) = &expr
                && let Expr::Literal(Value::String(name)) = &**key
            {
                name.clone()
            } else if let Expr::Name(name) = &expr {
                name.clone()
            } else {
                unnamed += 1;
                format!("${unnamed}")
            };
            Ok((name, expr))
        })?;
        Ok(Projection::List(fields))
    }

    fn from(&mut self) -> Parsed<(String, Vec<Join>)> {
        if !self.word("FROM") {
            return Ok(("c".to_owned(), Vec::new()));
        }
        let first = self.name()?;
        // `FROM c`, `FROM root r`, `FROM c AS d`, and in sub-queries `FROM t IN c.tags`.
        if self.word("IN") {
            let source = self.expr()?;
            return Ok((
                String::new(),
                vec![Join {
                    alias: first,
                    source,
                }],
            ));
        }
        let explicit = self.word("AS");
        let named = explicit
            || matches!(self.peek(), Token::Word(word)
                if !RESERVED.contains(&&*word.to_ascii_uppercase()));
        let alias = if named { self.name()? } else { first };
        let mut joins = Vec::new();
        while self.word("JOIN") {
            let alias = self.name()?;
            self.expect_word("IN")?;
            let source = self.expr()?;
            joins.push(Join { alias, source });
        }
        Ok((alias, joins))
    }

    fn expr(&mut self) -> Parsed<Expr> {
        if self.depth >= MAX_DEPTH {
            return Err(ServiceError::bad_request(
                "The SQL query exceeded the maximum nesting depth.",
            ));
        }
        self.depth += 1;
        let result = self.conditional();
        self.depth -= 1;
        result
    }

    fn conditional(&mut self) -> Parsed<Expr> {
        let condition = self.binary(0)?;
        if !self.symbol("?") {
            return Ok(condition);
        }
        let yes = self.expr()?;
        self.expect(":")?;
        let no = self.expr()?;
        Ok(Expr::Conditional(condition.into(), yes.into(), no.into()))
    }

    /// Counts one more link of a chain.
    fn link(&mut self) -> Parsed<()> {
        self.links += 1;
        if self.links <= MAX_LINKS {
            return Ok(());
        }
        Err(ServiceError::bad_request(format!(
            "The SQL query is too complex: it has more than {MAX_LINKS} operators and property accesses."
        )))
    }

    /// The operator that comes next, and how tightly it binds: 0 is loosest.
    fn operator(&self) -> Option<(usize, Binary)> {
        let symbol = match self.peek() {
            Token::Symbol(symbol) => symbol,
            _ if self.is_word("OR") => return Some((1, Binary::Or)),
            _ if self.is_word("AND") => return Some((2, Binary::And)),
            _ => return None,
        };
        Some(match *symbol {
            "??" => (0, Binary::Coalesce),
            "=" => (COMPARISON, Binary::Equal),
            "!=" | "<>" => (COMPARISON, Binary::NotEqual),
            "<" => (COMPARISON, Binary::Less),
            "<=" => (COMPARISON, Binary::LessOrEqual),
            ">" => (COMPARISON, Binary::Greater),
            ">=" => (COMPARISON, Binary::GreaterOrEqual),
            "||" => (4, Binary::Concat),
            "+" => (5, Binary::Add),
            "-" => (5, Binary::Subtract),
            "*" => (6, Binary::Multiply),
            "/" => (6, Binary::Divide),
            "%" => (6, Binary::Remainder),
            _ => return None,
        })
    }

    /// Operators that bind at least this tightly. One function for all levels: a function per level would cost a stack
    /// frame per level at every parenthesis.
    fn binary(&mut self, loosest: usize) -> Parsed<Expr> {
        let mut left = self.unary()?;
        loop {
            if let Some((level, operator)) = self.operator()
                && level >= loosest
            {
                self.next();
                self.link()?;
                let right = self.binary(level + 1)?;
                left = Expr::Binary(left.into(), operator, right.into());
                continue;
            }
            if loosest > COMPARISON {
                return Ok(left);
            }
            match self.membership(left)? {
                (expr, true) => {
                    self.link()?;
                    left = expr;
                }
                (expr, false) => return Ok(expr),
            }
        }
    }

    /// `[NOT] IN`, `[NOT] BETWEEN`, `[NOT] LIKE`; whether there was one.
    fn membership(&mut self, left: Expr) -> Parsed<(Expr, bool)> {
        let start = self.at;
        let negated = self.word("NOT");
        let expr = if self.word("IN") {
            self.expect("(")?;
            let list = self.list(Self::expr)?;
            self.expect(")")?;
            Expr::In(left.into(), list)
        } else if self.word("BETWEEN") {
            let low = self.binary(COMPARISON + 1)?;
            self.expect_word("AND")?;
            let high = self.binary(COMPARISON + 1)?;
            Expr::Between(left.into(), low.into(), high.into())
        } else if self.word("LIKE") {
            let pattern = self.binary(COMPARISON + 1)?;
            Expr::Like(left.into(), pattern.into())
        } else {
            self.at = start;
            return Ok((left, false));
        };
        Ok((
            if negated {
                Expr::Unary(Unary::Not, expr.into())
            } else {
                expr
            },
            true,
        ))
    }

    fn unary(&mut self) -> Parsed<Expr> {
        let operator = if self.word("NOT") {
            Unary::Not
        } else if self.symbol("-") {
            Unary::Minus
        } else if self.symbol("+") {
            Unary::Plus
        } else {
            return self.postfix();
        };
        if self.depth >= MAX_DEPTH {
            return Err(self.unexpected());
        }
        self.depth += 1;
        // NOT binds looser than comparisons, a sign tighter than everything.
        let operand = if operator == Unary::Not {
            self.binary(COMPARISON)
        } else {
            self.unary()
        };
        self.depth -= 1;
        Ok(Expr::Unary(operator, operand?.into()))
    }

    fn postfix(&mut self) -> Parsed<Expr> {
        let mut expr = self.primary()?;
        loop {
            if self.symbol(".") {
                self.link()?;
                let name = self.name()?;
                expr = Expr::Member(expr.into(), Expr::Literal(name.into()).into());
            } else if self.symbol("[") {
                self.link()?;
                let key = self.expr()?;
                self.expect("]")?;
                expr = Expr::Member(expr.into(), key.into());
            } else {
                return Ok(expr);
            }
        }
    }

    fn primary(&mut self) -> Parsed<Expr> {
        match self.peek().clone() {
            Token::Number(number) => {
                self.next();
                Ok(Expr::Literal(super::value::number(number)))
            }
            Token::Text(text) => {
                self.next();
                Ok(Expr::Literal(Value::String(text)))
            }
            Token::Parameter(name) => {
                self.next();
                Ok(Expr::Parameter(name))
            }
            Token::Symbol("(") => {
                self.next();
                if self.is_word("SELECT") {
                    return Err(ServiceError::bad_request(
                        "Scalar sub-queries are not supported by this emulator; use EXISTS or a JOIN.",
                    ));
                }
                let expr = self.expr()?;
                self.expect(")")?;
                Ok(expr)
            }
            Token::Symbol("[") => {
                self.next();
                let mut items = Vec::new();
                if !self.symbol("]") {
                    items = self.list(Self::expr)?;
                    self.expect("]")?;
                }
                Ok(Expr::Array(items))
            }
            Token::Symbol("{") => self.object(),
            Token::Word(word) => self.named(&word),
            Token::Symbol(_) | Token::End => Err(self.unexpected()),
        }
    }

    fn object(&mut self) -> Parsed<Expr> {
        self.expect("{")?;
        let mut fields = Vec::new();
        if !self.symbol("}") {
            fields = self.list(|parser| {
                let (Token::Text(name) | Token::Word(name)) = parser.next() else {
                    return Err(parser.unexpected());
                };
                parser.expect(":")?;
                Ok((name, parser.expr()?))
            })?;
            self.expect("}")?;
        }
        Ok(Expr::Object(fields))
    }

    fn named(&mut self, word: &str) -> Parsed<Expr> {
        self.next();
        let literal = match &*word.to_ascii_lowercase() {
            "true" => Some(Expr::Literal(true.into())),
            "false" => Some(Expr::Literal(false.into())),
            "null" => Some(Expr::Literal(Value::Null)),
            "undefined" => Some(Expr::Undefined),
            _ => None,
        };
        if let Some(literal) = literal {
            return Ok(literal);
        }
        if word.eq_ignore_ascii_case("EXISTS") {
            self.expect("(")?;
            let select = self.select()?;
            self.expect(")")?;
            return Ok(Expr::Exists(select.into()));
        }
        if RESERVED.contains(&&*word.to_ascii_uppercase()) {
            self.at = self.at.saturating_sub(1);
            return Err(self.unexpected());
        }
        if !self.symbol("(") {
            return Ok(Expr::Name(word.to_owned()));
        }
        let mut arguments = Vec::new();
        if !self.symbol(")") {
            arguments = self.list(Self::expr)?;
            self.expect(")")?;
        }
        Ok(Expr::Call(word.to_ascii_uppercase(), arguments))
    }
}
