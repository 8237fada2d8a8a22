//! The grammar of expressions.

use serde_json::Value;

use super::cursor::{Parsed, Parser, Unbound};
use crate::sql::ast::{Binary, COMPARISON, Expr, OPERATORS, Pick, Select, Unary};
use crate::sql::error::{self, Location};
use crate::sql::function::{self, NamedFunction};
use crate::sql::lexer::Token;
use crate::sql::value;

impl Parser<'_> {
    pub(super) fn expr(&mut self) -> Parsed<Expr> {
        self.nested(Self::conditional)
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

    /// Returns the next operator and its precedence.
    fn operator(&self) -> Option<(usize, Binary)> {
        let found = |symbol: &str| match self.peek() {
            Token::Symbol("<>") => symbol == "!=",
            Token::Symbol(found) => *found == symbol,
            _ => self.is_word(symbol),
        };
        let known = OPERATORS.into_iter().find(|(_, symbol, _)| found(symbol));
        known.map(|(operator, _, level)| (level, operator))
    }

    /// Parses operators of at least this precedence. Operators that wait for their right operand
    /// are kept in a list instead of recursive calls, which would use a stack frame per precedence
    /// at every parenthesis.
    fn binary(&mut self, loosest: usize) -> Parsed<Expr> {
        let depth = self.depth();
        let mut waiting = Vec::new();
        let mut operand = self.unary()?;
        let mut links = 0;
        loop {
            if let Some((level, operator)) = self.operator()
                && level >= loosest
            {
                self.next();
                // The operands of AND and OR are chains of their own.
                if operator.is_logical() {
                    links = 0;
                } else {
                    self.link(links)?;
                    links += 1;
                }
                push(&mut waiting, operand, operator);
                // An operator of higher precedence after a lower one is one level deeper in the
                // tree.
                self.go_to_depth(depth + waiting.len())?;
                operand = self.unary()?;
            } else if loosest <= COMPARISON && self.is_membership() {
                self.link(links)?;
                links += 1;
                let left = join(&mut waiting, operand, COMPARISON);
                operand = self.membership(left)?;
            } else {
                self.go_to_depth(depth)?;
                return Ok(join(&mut waiting, operand, 0));
            }
        }
    }

    fn is_membership(&self) -> bool {
        let words = ["NOT", "IN", "BETWEEN", "LIKE"];
        words.into_iter().any(|word| self.is_word(word))
    }

    /// `[NOT] IN`, `[NOT] BETWEEN`, `[NOT] LIKE`.
    fn membership(&mut self, left: Expr) -> Parsed<Expr> {
        let negated = self.word("NOT");
        let expr = if self.word("IN") {
            self.expect("(")?;
            let list = self.list(Self::expr)?;
            self.expect(")")?;
            Expr::In(left.into(), list.into())
        } else if self.word("BETWEEN") {
            let low = self.nested(|parser| parser.binary(COMPARISON + 1))?;
            self.expect_word("AND")?;
            let high = self.nested(|parser| parser.binary(COMPARISON + 1))?;
            Expr::Between(left.into(), low.into(), high.into())
        } else if self.word("LIKE") {
            let pattern = self.nested(|parser| parser.binary(COMPARISON + 1))?;
            let escape = self.escape()?;
            Expr::Like(left.into(), pattern.into(), escape)
        } else {
            return Err(self.unexpected());
        };
        Ok(if negated {
            Expr::Unary(Unary::Not, expr.into())
        } else {
            expr
        })
    }

    fn escape(&mut self) -> Parsed<Option<char>> {
        if !self.word("ESCAPE") {
            return Ok(None);
        }
        let Token::Text(text) = self.peek().clone() else {
            return Err(self.unexpected());
        };
        let mut chars = text.chars();
        match (chars.next(), chars.next()) {
            (Some(escape), None) => {
                self.next();
                Ok(Some(escape))
            }
            _ => Err(error::semantic(
                self.text,
                self.location(),
                "ESCAPE takes a string of one character.",
            )),
        }
    }

    fn unary(&mut self) -> Parsed<Expr> {
        let operator = if self.word("NOT") {
            Unary::Not
        } else if self.symbol("-") {
            Unary::Minus
        } else if self.symbol("+") {
            Unary::Plus
        } else if self.symbol("~") {
            Unary::BitNot
        } else {
            return self.postfix();
        };
        // NOT has a lower precedence than comparisons, a sign has the highest.
        let operand = self.nested(|parser| {
            if operator == Unary::Not {
                parser.binary(COMPARISON)
            } else {
                parser.unary()
            }
        })?;
        // A negative number is a constant, so that an index can serve it.
        if let (Unary::Minus, Expr::Literal(Value::Number(number))) = (operator, &operand)
            && let Some(number) = number.as_f64()
        {
            return Ok(Expr::Literal(value::number(-number)));
        }
        Ok(Expr::Unary(operator, operand.into()))
    }

    fn postfix(&mut self) -> Parsed<Expr> {
        let mut expr = self.primary()?;
        for at in 0.. {
            if self.symbol(".") {
                self.link(at)?;
                let name = self.name()?;
                expr = Expr::Member(expr.into(), Expr::Literal(name.into()).into());
            } else if self.symbol("[") {
                self.link(at)?;
                let key = self.expr()?;
                self.expect("]")?;
                expr = Expr::Member(expr.into(), key.into());
            } else {
                break;
            }
        }
        Ok(expr)
    }

    pub(super) fn primary(&mut self) -> Parsed<Expr> {
        match self.peek().clone() {
            Token::Number(number) => {
                self.next();
                Ok(Expr::Literal(value::number(number)))
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
                let expr = if self.is_word("SELECT") {
                    Expr::Scalar(self.sub_query()?.into())
                } else {
                    self.expr()?
                };
                self.expect(")")?;
                Ok(expr)
            }
            Token::Symbol("[") => {
                self.next();
                self.items("]").map(Expr::Array)
            }
            Token::Symbol("{") => self.object(),
            Token::Word(word) => self.named(&word),
            Token::Symbol(_) | Token::End => Err(self.unexpected()),
        }
    }

    /// Parses expressions up to a closing symbol.
    fn items(&mut self, close: &str) -> Parsed<Vec<Expr>> {
        if self.symbol(close) {
            return Ok(Vec::new());
        }
        let items = self.list(Self::expr)?;
        self.expect(close)?;
        Ok(items)
    }

    fn object(&mut self) -> Parsed<Expr> {
        self.expect("{")?;
        let mut fields = Vec::new();
        if !self.symbol("}") {
            fields = self.list(|parser| {
                let (Token::Text(name) | Token::Word(name)) = parser.peek().clone() else {
                    return Err(parser.unexpected());
                };
                parser.next();
                parser.expect(":")?;
                Ok((name, parser.expr()?))
            })?;
            self.expect("}")?;
        }
        Ok(Expr::Object(fields))
    }

    /// Parses a constant, a sub-query with its keyword, a function call or a name.
    fn named(&mut self, word: &str) -> Parsed<Expr> {
        let constant = match word {
            "true" => Some(Expr::Literal(true.into())),
            "false" => Some(Expr::Literal(false.into())),
            "null" => Some(Expr::Literal(Value::Null)),
            "undefined" => Some(Expr::Undefined),
            _ => None,
        };
        if let Some(constant) = constant {
            self.next();
            return Ok(constant);
        }
        let location = self.location();
        if self.word("EXISTS") {
            return self.in_parentheses().map(Expr::Exists);
        }
        if self.word("ARRAY") {
            return self.in_parentheses().map(Expr::Collect);
        }
        if self.word("UDF") {
            let cause = "The emulator does not run scripts, so it has no user-defined functions.";
            return Err(error::semantic(self.text, location, cause));
        }
        let name = self.name()?;
        if !self.is_symbol("(") {
            self.use_name(&name, location);
            return Ok(Expr::Name(name));
        }
        self.call(&name, location)
    }

    fn in_parentheses(&mut self) -> Parsed<Box<Select>> {
        self.expect("(")?;
        let select = self.sub_query()?;
        self.expect(")")?;
        Ok(select.into())
    }

    fn call(&mut self, name: &str, location: Location) -> Parsed<Expr> {
        self.expect("(")?;
        let picks = [Pick::First, Pick::Last];
        if self.is_word("SELECT")
            && let Some(pick) = picks
                .into_iter()
                .find(|pick| name.eq_ignore_ascii_case(pick.name()))
        {
            let select = self.sub_query()?;
            self.expect(")")?;
            return Ok(Expr::Pick(pick, select.into()));
        }
        let known = function::find(name)
            .map_err(|cause| error::query_error(self.text, location.clone(), "SC2005", &cause))?;
        let mut arguments = self.items(")")?;
        let (name, least, most) = match known {
            NamedFunction::Scalar(function) => (function.name, function.least, function.most),
            NamedFunction::Aggregate(aggregate) => (aggregate.name(), 1, 1),
        };
        if arguments.len() < least || arguments.len() > most {
            let takes = match (least, most) {
                (least, most) if least == most => format!("{least}"),
                (least, usize::MAX) => format!("at least {least}"),
                _ => format!("{least} to {most}"),
            };
            let cause = format!("The {name} function requires {takes} argument(s).");
            return Err(error::semantic(self.text, self.since(&location), &cause));
        }
        match known {
            NamedFunction::Scalar(function) => Ok(Expr::Call(function, arguments)),
            NamedFunction::Aggregate(aggregate) => {
                let argument = arguments.remove(0);
                if argument.has_aggregate() {
                    let cause = "Cannot perform an aggregate function on an expression containing an aggregate.";
                    return Err(error::semantic(self.text, self.since(&location), cause));
                }
                Ok(Expr::Aggregate(aggregate, argument.into()))
            }
        }
    }

    /// Records a name that a FROM clause has to bind.
    pub(super) fn use_name(&mut self, name: &str, location: Location) {
        self.unbound.push(Unbound {
            name: name.to_owned(),
            location,
        });
    }
}

/// The left operands of an operator that waits for its right operand: several for a chain of `AND`
/// or `OR`.
type Waiting = (Vec<Expr>, Binary);

/// Adds an operator and its left operand to the waiting operators.
fn push(waiting: &mut Vec<Waiting>, operand: Expr, operator: Binary) {
    let tighter = if operator.is_logical() {
        operator.level() + 1
    } else {
        operator.level()
    };
    let left = join(waiting, operand, tighter);
    match waiting.last_mut() {
        Some((chain, last)) if *last == operator && operator.is_logical() => chain.push(left),
        _ => waiting.push((vec![left], operator)),
    }
}

/// Joins an operand with the waiting operators of at least this precedence, the nearest first.
fn join(waiting: &mut Vec<Waiting>, mut operand: Expr, level: usize) -> Expr {
    while let Some((mut left, operator)) = waiting.pop_if(|(_, known)| known.level() >= level) {
        left.push(operand);
        operand = if operator.is_logical() {
            Expr::balanced(left, operator)
        } else {
            left.into_iter()
                .reduce(|left, right| Expr::Binary(left.into(), operator, right.into()))
                .unwrap_or(Expr::Undefined)
        };
    }
    operand
}
