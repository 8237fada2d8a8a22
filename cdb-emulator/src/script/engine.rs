//! Runs scripts with QuickJS. Every execution has an engine of its own, so scripts share nothing.
//!
//! The service stops a script after five seconds. Here the work is counted, so that a script is
//! stopped at the same place on every machine.

use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;
use std::rc::Rc;

use rquickjs::context::EvalOptions;
use rquickjs::function::IntoArgs;
use rquickjs::{Context, Ctx, FromJs, Function, Object, Runtime};
use serde_json::Value;

use super::exception::{failed, timed_out, uncaught};
use super::host::{Call, Ended, Host, Messages, Reply, Setup, Source};
use crate::error::ServiceError;
use crate::sql::UserFunctions;

const API: &str = include_str!("server_side_api.js");

/// The global variable that keeps the driver of user-defined functions.
const DRIVER: &str = "$driver";

/// Maximum work of an execution. The engine counts a unit every 10,000 calls and backward jumps, so
/// this is up to five seconds.
const MOST_WORK: u32 = 10_000;

/// The number of reactions of promises that count as a unit of work.
const JOBS: u32 = 20;

/// The documents of queries that count as a unit of work.
const DOCUMENTS: usize = 20;

/// The part of a unit of work that an operation counts as, in documents of queries.
const OPERATION: usize = DOCUMENTS / 2;

/// The work after which operations are not accepted, so that the script can end in time.
const MOST_ACCEPTED_WORK: u32 = MOST_WORK / 10 * 8;

/// Maximum number of operations of an execution, for the same reason.
const MOST_OPERATIONS: u32 = 10_000;

/// Maximum memory of an engine in bytes.
const MEMORY: usize = 64 * 1024 * 1024;

/// Maximum stack of an engine in bytes: a part of the stack of the smallest thread.
const STACK: usize = 256 * 1024;

/// Runs a stored procedure or a trigger.
pub(crate) fn run(
    source: Source<'_>,
    setup: &Setup<'_>,
    parameters: &[Value],
    host: &mut dyn Host,
) -> Ended {
    let mut log = String::new();
    let result = Engine::new().and_then(|engine| {
        let setup = serde_json::to_string(setup)?;
        let parameters = serde_json::to_string(parameters)?;
        engine.enter(Some(&setup), |session| {
            let result = session.run(source, parameters, host);
            log = session.call("log", ()).unwrap_or_default();
            result
        })
    });
    Ended { result, log }
}

/// An engine with its limits.
struct Engine {
    context: Context,
    work: Rc<Cell<u32>>,
}

impl Engine {
    fn new() -> Result<Self, ServiceError> {
        let runtime = Runtime::new().map_err(ServiceError::internal)?;
        runtime.set_memory_limit(MEMORY);
        runtime.set_max_stack_size(STACK);
        let work = Rc::new(Cell::new(0_u32));
        let counter = work.clone();
        runtime.set_interrupt_handler(Some(Box::new(move || {
            counter.set(counter.get().saturating_add(1));
            counter.get() > MOST_WORK
        })));
        let context = Context::full(&runtime).map_err(ServiceError::internal)?;
        Ok(Self { context, work })
    }

    /// Loads the API and works with its driver.
    fn enter<T>(
        &self,
        setup: Option<&str>,
        work: impl FnOnce(&Session<'_, '_>) -> Result<T, ServiceError>,
    ) -> Result<T, ServiceError> {
        self.context.with(|ctx| {
            let api: Function<'_> = ctx
                .eval_with_options(API, named("server_side_api.js"))
                .map_err(ServiceError::internal)?;
            let driver = match setup {
                Some(setup) => api.call((setup, MOST_OPERATIONS)),
                None => api.call(()),
            };
            let driver: Object<'_> = driver.map_err(ServiceError::internal)?;
            work(&Session {
                ctx,
                driver,
                work: &self.work,
            })
        })
    }
}

fn named(file: &str) -> EvalOptions {
    let mut options = EvalOptions::default();
    // Scripts of the service are not strict.
    options.strict = false;
    options.filename = Some(file.to_owned());
    options
}

/// An engine in use.
struct Session<'s, 'js> {
    ctx: Ctx<'js>,
    driver: Object<'js>,
    work: &'s Cell<u32>,
}

impl<'js> Session<'_, 'js> {
    fn run(
        &self,
        source: Source<'_>,
        parameters: String,
        host: &mut dyn Host,
    ) -> Result<Messages, ServiceError> {
        let entry = self.compile(source)?;
        self.call::<()>("start", (entry, parameters))?;
        let mut examined = 0;
        loop {
            self.run_jobs()?;
            let Some(call) = self.call::<Option<String>>("take", ())? else {
                break;
            };
            let reply = match reply(&call, host) {
                Err(error) if error.status < 500 => Reply::error(&error),
                other => other?,
            };
            examined += OPERATION + reply.examined;
            self.add_work(examined / DOCUMENTS);
            examined %= DOCUMENTS;
            let accepts = self.work.get() < MOST_ACCEPTED_WORK;
            let reply = serde_json::to_string(&reply)?;
            self.call::<()>("complete", (reply, accepts))?;
        }
        Ok(serde_json::from_str(&self.call::<String>("finish", ())?)?)
    }

    fn add_work(&self, units: usize) {
        let units = u32::try_from(units).unwrap_or(u32::MAX);
        self.work.set(self.work.get().saturating_add(units));
    }

    /// Returns the function of a script: the first one if the text declares several.
    fn compile(&self, source: Source<'_>) -> Result<Function<'js>, ServiceError> {
        let file = format!("{}.js", source.id);
        let body = source.body.trim_start_matches('\u{feff}');
        // An assignment also accepts an anonymous function. It is on the line of the text, so that
        // the numbers of lines are those of the text.
        let text = format!("$entry = {body}");
        self.checked(self.ctx.eval_with_options::<(), _>(text, named(&file)))?;
        let globals = self.ctx.globals();
        let entry = globals.get("$entry");
        self.checked(globals.remove("$entry"))?;
        entry.map_err(|_| failed("The body of the script is not a function."))
    }

    /// Calls a function of the driver.
    fn call<T: FromJs<'js>>(
        &self,
        name: &str,
        arguments: impl IntoArgs<'js>,
    ) -> Result<T, ServiceError> {
        let function: Function<'js> = self.checked(self.driver.get(name))?;
        self.checked(function.call(arguments))
    }

    /// Runs the reactions of promises. The engine ignores their exceptions, like the service.
    fn run_jobs(&self) -> Result<(), ServiceError> {
        let mut jobs = 0;
        while self.ctx.execute_pending_job() {
            jobs += 1;
            if jobs % JOBS == 0 {
                self.add_work(1);
            }
            self.checked(Ok(()))?;
        }
        Ok(())
    }

    fn checked<T>(&self, result: rquickjs::Result<T>) -> Result<T, ServiceError> {
        if self.work.get() > MOST_WORK {
            return Err(timed_out());
        }
        result.map_err(|error| match error {
            rquickjs::Error::Exception => uncaught(&self.ctx, &self.driver),
            other => failed(&other.to_string()),
        })
    }
}

fn reply(call: &str, host: &mut dyn Host) -> Result<Reply, ServiceError> {
    let call: Call = serde_json::from_str(call)?;
    host.call(call)
}

/// The user-defined functions of a query, with one engine and its limits.
pub(crate) struct Functions(Engine);

impl Functions {
    /// Compiles the functions that a query calls.
    pub(crate) fn compile(sources: &[Source<'_>]) -> Result<Self, ServiceError> {
        let engine = Engine::new()?;
        engine.enter(None, |session| {
            for source in sources {
                let entry = session.compile(*source)?;
                session.call::<()>("define", (source.id, entry))?;
            }
            let driver = session.driver.clone();
            session.checked(session.ctx.globals().set(DRIVER, driver))
        })?;
        Ok(Self(engine))
    }
}

impl fmt::Debug for Functions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Functions").finish_non_exhaustive()
    }
}

impl UserFunctions for Functions {
    fn call(
        &self,
        name: &str,
        arguments: &[Option<Cow<'_, Value>>],
    ) -> Result<Option<Value>, ServiceError> {
        let missing = arguments.iter().enumerate();
        let missing = missing.filter(|(_, argument)| argument.is_none());
        let missing: Vec<usize> = missing.map(|(at, _)| at).collect();
        let parameters = serde_json::to_string(arguments)?;
        let missing = serde_json::to_string(&missing)?;
        self.0.context.with(|ctx| {
            let driver = ctx.globals().get(DRIVER).map_err(ServiceError::internal)?;
            let session = Session {
                ctx,
                driver,
                work: &self.0.work,
            };
            let result: Option<String> = session.call("evaluate", (name, parameters, missing))?;
            Ok(result.map(|text| serde_json::from_str(&text)).transpose()?)
        })
    }
}
