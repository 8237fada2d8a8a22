//! The containers of a program, and the options that choose one of them.

use std::ffi::OsStr;

use cdb_model::query::Explain;
use cdb_model::{Container, Document};
use cdb_provider::coordination::MessageDocument;
use cdb_provider::coordination::change_feed::PartDocument;
use cdb_provider::documents::Durable;
use cdb_work::WorkMessage;
use clap::builder::PossibleValuesParser;
use clap::error::ErrorKind;
use clap::{Arg, ArgMatches, Args, Command};

use crate::connection::{CONTAINER, Connection};
use crate::model::{Model, NamedQuery, Settings};

/// The containers of a program, in one database. There is at least one.
pub(crate) struct Containers {
    pub(crate) database: String,
    first: Model,
    others: Vec<Model>,
}

impl Containers {
    pub(crate) fn new<C: Container>(name: String) -> Self {
        Self {
            database: "duroxide".to_owned(),
            first: Model::of::<C>(name),
            others: Vec::new(),
        }
    }

    pub(crate) fn add<C: Container>(&mut self, name: String) {
        let mut added = Model::of::<C>(name);
        added.settings = self.first.settings.clone();
        let same_type = self.all().find(|model| model.name == C::NAME);
        if let Some(other) = same_type {
            added.queries.clone_from(&other.queries);
        }
        self.others.push(added);
    }

    /// Changes the settings of the program.
    pub(crate) fn set(&mut self, change: impl FnOnce(&mut Settings)) {
        change(&mut self.first.settings);
        for other in &mut self.others {
            other.settings = self.first.settings.clone();
        }
    }

    /// Adds a query of the program to the containers of its type.
    pub(crate) fn add_query<C: Container>(
        &mut self,
        name: String,
        query: impl Explain<C> + 'static,
    ) {
        let query = NamedQuery::new(name, query);
        for model in std::iter::once(&mut self.first).chain(&mut self.others) {
            if model.name == C::NAME {
                model.queries.push(query.clone());
            }
        }
    }

    /// Returns the command whose options choose among these containers: a program with one container
    /// may give it another name, one with several needs to be told which, unless only one can hold
    /// what the command is about.
    pub(crate) fn with_choice(&self, command: Command) -> Command {
        command.mut_subcommands(|command| {
            let is_able = |model: &&Model| is_about(command.get_name(), model);
            let able: Vec<&Model> = self.all().filter(is_able).collect();
            let default = match *able {
                _ if self.others.is_empty() => Some(&self.first),
                // The tools of this command have their own defaults.
                _ if command.get_name() == "mcp" => Some(&self.first),
                [only] => Some(only),
                _ => None,
            };
            let choice = Arg::new(CONTAINER)
                .long(CONTAINER)
                .value_name("NAME")
                .env("COSMOS_CONTAINER")
                .hide_env_values(true)
                .help("The name of the container");
            let command = match command.get_name() {
                _ if self.others.is_empty() => command,
                "model" => command.arg(choice.global(true)),
                // Its other subcommands open the container.
                "policy" => command.mut_subcommand("print", |print| print.arg(choice)),
                _ => command,
            };
            self.with_defaults(command, default)
        })
    }

    fn with_defaults(&self, command: Command, default: Option<&Model>) -> Command {
        let command = command.mut_args(|arg| match arg.get_id().as_str() {
            "database" => arg.default_value(self.database.clone()),
            CONTAINER => self.with_names(arg, default),
            _ => arg,
        });
        command.mut_subcommands(|inner| self.with_defaults(inner, default))
    }

    fn with_names(&self, arg: Arg, default: Option<&Model>) -> Arg {
        let names = self.all().map(|model| model.container.clone());
        let arg = match *self.others {
            [] => arg,
            _ => arg.value_parser(PossibleValuesParser::new(names)),
        };
        match default {
            Some(model) => arg.default_value(model.container.clone()),
            // `chosen` asks for it: here the option of a parent command would be asked for too.
            None => arg.default_value(None::<&'static str>),
        }
    }

    /// Returns the container that the arguments of a subcommand choose.
    ///
    /// # Errors
    /// When the command needs a container, and neither an option nor a variable chooses one.
    pub(crate) fn chosen(&self, leaf: &ArgMatches) -> Result<&Model, clap::Error> {
        let Ok(name) = leaf.try_get_one::<String>(CONTAINER) else {
            // The command has no such option.
            return Ok(&self.first);
        };
        if let Some(name) = name {
            let mut others = self.others.iter();
            let other = others.find(|model| model.container == *name);
            return Ok(other.unwrap_or(&self.first));
        }
        let names: Vec<&str> = self.all().map(|model| &*model.container).collect();
        let message = format!(
            "the program has several containers; choose one with --container (or COSMOS_CONTAINER): {}",
            names.join(", ")
        );
        Err(Command::new("").error(ErrorKind::MissingRequiredArgument, message))
    }

    /// Returns a name that two containers have.
    pub(crate) fn duplicate_name(&self) -> Option<&str> {
        let mut names: Vec<&str> = self.all().map(|model| &*model.container).collect();
        names.sort_unstable();
        let mut pairs = names.windows(2);
        pairs.find(|pair| pair[0] == pair[1]).map(|pair| pair[0])
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Model> {
        std::iter::once(&self.first).chain(&self.others)
    }
}

/// Whether a container can hold what a command is about.
fn is_about(command: &str, model: &Model) -> bool {
    let has = |discriminator: &str| {
        let mut documents = model.documents.iter();
        documents.any(|shape| shape.discriminator == discriminator)
    };
    match command {
        "instances" | "queues" | "limits" | "members" | "dashboard" => {
            model.require_orchestrations().is_ok()
        }
        "messages" => {
            model.require_orchestrations().is_ok()
                || has(<MessageDocument<Durable> as Document>::SHAPE.discriminator)
                || has(WorkMessage::SHAPE.discriminator)
        }
        "change-feed" => has(PartDocument::SHAPE.discriminator),
        _ => true,
    }
}

/// Moves the options of a connection that stand before the last subcommand behind its arguments,
/// where the parser reads them: `cdb --container shop policy --timeout 5 check`.
pub(crate) fn reorder<T: AsRef<OsStr>>(mut arguments: Vec<T>, mut command: &Command) -> Vec<T> {
    let options = Connection::augment_args(Command::new(""));
    let (mut moved, mut at) = (Vec::new(), 1);
    while let Some(argument) = arguments.get(at).and_then(|one| one.as_ref().to_str()) {
        if argument == "--json" {
            at += 1;
            continue;
        }
        let Some(option) = argument.strip_prefix("--") else {
            match command.find_subcommand(argument) {
                Some(inner) => command = inner,
                None => break,
            }
            at += 1;
            continue;
        };
        let (name, has_value) = match option.split_once('=') {
            Some((name, _)) => (name, true),
            None => (option, false),
        };
        let mut known = options.get_arguments();
        let Some(option) = known.find(|known| known.get_long() == Some(name)) else {
            break;
        };
        let is_pair = !has_value && option.get_action().takes_values();
        let end = (at + 1 + usize::from(is_pair)).min(arguments.len());
        moved.extend(arguments.drain(at..end));
    }
    let end = arguments.iter().position(|one| one.as_ref() == "--");
    let end = end.unwrap_or(arguments.len());
    arguments.splice(end..end, moved);
    arguments
}
