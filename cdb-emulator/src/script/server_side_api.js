// The server-side API of Cosmos DB. Evaluates to a function that takes the setup of a script, as JSON, and returns the
// driver of the script. User-defined functions have no setup and no API. Operations are queued: the driver hands them
// to the emulator and calls their callbacks. Names, arguments and messages follow Microsoft's documentation of the API.
(function (setupText, mostOperations) {
  "use strict";
  const setup = setupText === undefined ? undefined : JSON.parse(setupText);
  const MOST_LOG = 8192;

  // The engine of the service also accepts `new Error(number, message)`.
  const NativeError = Error;
  function NumberedError(...given) {
    const isNumbered = typeof given[0] === "number" && given.length > 1;
    const rest = isNumbered ? given.slice(1) : given;
    const error = Reflect.construct(NativeError, rest, new.target || NumberedError);
    if (isNumbered) error.number = given[0];
    return error;
  }
  Object.setPrototypeOf(NumberedError, NativeError);
  Object.defineProperty(NumberedError, "name", { value: "Error" });
  NumberedError.prototype = NativeError.prototype;
  NativeError.prototype.constructor = NumberedError;
  globalThis.Error = NumberedError;

  function refuse(number, message) {
    throw new NumberedError(number, message);
  }

  const functions = new Map();
  const queue = [];
  let accepts = true;
  let accepted = 0;
  let running;
  let aborted;
  let log = "";

  // Returns whether the operation is accepted: shortly before the limits of a script it is not.
  function enqueue(call, callback) {
    const isAccepted = accepts && accepted < mostOperations;
    if (isAccepted) {
      accepted += 1;
      queue.push({ call, callback });
    }
    return isAccepted;
  }

  function split(options, callback) {
    if (callback === undefined && typeof options === "function") return [{}, options];
    if (options === undefined) options = {};
    if (options === null || typeof options !== "object") {
      refuse(400, `The "options" parameter must be of type "object". Actual type is: "${typeof options}".`);
    }
    if (callback !== undefined && typeof callback !== "function") {
      refuse(400, `The "callback" parameter must be of type "function". Actual type is: "${typeof callback}".`);
    }
    return [options, callback];
  }

  function needs(name, least, given) {
    if (given < least) {
      refuse(400, `The function "${name}" requires at least ${least} argument(s) but was called with ${given} argument(s).`);
    }
  }

  function checkCollection(link) {
    if (link !== setup.selfLink && link !== setup.altLink) refuse(400, `Invalid collection link: "${link}".`);
  }

  function documentOf(link) {
    const starts = { rid: `${setup.selfLink}docs/`, id: `${setup.altLink}/docs/` };
    for (const [by, start] of Object.entries(starts)) {
      if (typeof link === "string" && link.startsWith(start)) {
        const name = link.slice(start.length).replace(/\/$/, "");
        if (name !== "" && !name.includes("/")) return { [by]: name };
      }
    }
    return refuse(400, `Invalid document link: "${link}".`);
  }

  function newId() {
    const digit = () => Math.floor(Math.random() * 16).toString(16);
    return "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx".replace(/x/g, digit);
  }

  function newDocument(body, options) {
    if (body === null || (typeof body !== "object" && typeof body !== "string")) {
      refuse(400, "The document body must be an object or a string representing a JSON-serialized object.");
    }
    const document = typeof body === "string" ? JSON.parse(body) : { ...body };
    if (!document.id && options.disableAutomaticIdGeneration !== true) document.id = newId();
    return JSON.stringify(document);
  }

  function textOf(document) {
    return typeof document === "string" ? document : JSON.stringify(document);
  }

  const collection = {
    getSelfLink: () => setup.selfLink,
    getAltLink: () => setup.altLink,

    createDocument(link, body, options, callback) {
      needs("createDocument", 2, arguments.length);
      checkCollection(link);
      [options, callback] = split(options, callback);
      return enqueue({ operation: "create", document: newDocument(body, options) }, callback);
    },

    upsertDocument(link, body, options, callback) {
      needs("upsertDocument", 2, arguments.length);
      checkCollection(link);
      [options, callback] = split(options, callback);
      const document = newDocument(body, options);
      return enqueue({ operation: "upsert", document, etag: options.etag }, callback);
    },

    replaceDocument(link, document, options, callback) {
      needs("replaceDocument", 2, arguments.length);
      [options, callback] = split(options, callback);
      const call = { operation: "replace", link: documentOf(link), document: textOf(document), etag: options.etag };
      return enqueue(call, callback);
    },

    patchDocument(link, operations, options, callback) {
      needs("patchDocument", 2, arguments.length);
      [options, callback] = split(options, callback);
      return enqueue({ operation: "patch", link: documentOf(link), operations, etag: options.etag }, callback);
    },

    deleteDocument(link, options, callback) {
      needs("deleteDocument", 1, arguments.length);
      [options, callback] = split(options, callback);
      return enqueue({ operation: "delete", link: documentOf(link), etag: options.etag }, callback);
    },

    readDocument(link, options, callback) {
      needs("readDocument", 1, arguments.length);
      [options, callback] = split(options, callback);
      return enqueue({ operation: "read", link: documentOf(link), ifNoneMatch: options.ifNoneMatch }, callback);
    },

    readDocuments(link, options, callback) {
      needs("readDocuments", 1, arguments.length);
      return collection.queryDocuments(link, "SELECT * FROM root r", options, callback);
    },

    queryDocuments(link, query, options, callback) {
      needs("queryDocuments", 2, arguments.length);
      checkCollection(link);
      [options, callback] = split(options, callback);
      if (typeof query === "string") query = { query };
      const { continuation, pageSize } = options;
      return enqueue({ operation: "query", query, continuation, pageSize: pageSize || 100 }, callback);
    },
  };

  // `__.filter` and others: the number of arguments, and the function from a page of documents to its result.
  const transforms = {
    filter: [1, (accept) => (feed) => feed.filter((each) => accept(each))],
    map: [1, (project) => (feed) => feed.map((each) => project(each))],
    pluck: [1, (name) => (feed) => feed.map((each) => each[name])],
    sortBy: [1, (key) => (feed) => sorted(feed, key, 1)],
    sortByDescending: [1, (key) => (feed) => sorted(feed, key, -1)],
    flatten: [1, (isShallow) => (feed) => (isShallow === true ? feed.flat() : feed)],
    unwind: [2, (inner, pair) => (feed) => feed.flatMap((each) => (pair ? inner(each).map((item) => pair(each, item)) : inner(each)))],
  };

  function sorted(feed, key, direction) {
    const keyed = feed.map((each) => [key(each), each]);
    return keyed.sort(([a], [b]) => direction * ((a > b) - (a < b))).map(([, each]) => each);
  }

  function transform(name, given) {
    const [most, make] = transforms[name];
    const own = [];
    // Options follow the arguments of the function itself, and a callback follows the options.
    const isOwn = (value) => (name === "flatten" ? typeof value === "boolean" : own.length === 0 || (typeof value === "function" && value.length > 1));
    while (given.length > 0 && own.length < most && isOwn(given[0])) own.push(given.shift());
    if (name !== "flatten" && typeof own[0] !== (name === "pluck" ? "string" : "function")) {
      refuse(400, "The predicate/transform function must be provided.");
    }
    return make(...own);
  }

  function evaluate(steps, options, callback) {
    [options, callback] = split(options, callback);
    const finish = callback || ((error, feed) => {
      if (error) throw error;
      if (!context.getResponse) refuse(400, "The callback function must be provided for scenarios, such as pre-trigger, when response object is not available.");
      context.getResponse().appendBody(JSON.stringify(feed));
    });
    const isAccepted = collection.readDocuments(setup.selfLink, options, (error, feed, information) => {
      try {
        if (!error) for (const step of steps) feed = step(feed);
      } catch (thrown) {
        error = thrown;
      }
      return error ? finish(error) : finish(undefined, feed, information);
    });
    return { isAccepted };
  }

  for (const name of Object.keys(transforms)) {
    collection[name] = (...given) => evaluate([transform(name, given)], ...given);
  }
  collection.chain = () => {
    const steps = [];
    const chain = { isAccepted: true, value: (options, callback) => evaluate(steps, options, callback) };
    for (const name of Object.keys(transforms)) {
      chain[name] = (...given) => {
        steps.push(transform(name, given));
        return chain;
      };
    }
    return chain;
  };

  // A request or a response.
  function message(body, isWritable) {
    const write = (value) => {
      if (!isWritable) refuse(403, "Not a writable property: body");
      body = value;
    };
    return {
      getBody: () => body,
      setBody: write,
      appendBody: (value) => write(body === null || body === undefined ? value : body + value),
    };
  }

  const context = {
    getCollection: () => collection,
    abort(error) {
      aborted = { error };
    },
  };
  if (setup !== undefined) {
    const request = message(setup.request, setup.changesRequest);
    if (setup.operation !== null) request.getOperationType = () => setup.operation;
    context.getRequest = () => request;
    globalThis.__ = Object.assign(Object.create(collection), { request });
    if (setup.response !== undefined) {
      const response = message(setup.response === null ? undefined : setup.response, true);
      context.getResponse = () => response;
      globalThis.__.response = response;
    }
    globalThis.getContext = () => context;
    globalThis.console = {
      log(format, ...values) {
        needs("log", 1, arguments.length);
        if (values.length > 0 && typeof format !== "string") {
          refuse(400, "First argument to console.log should be a string containing zero or more substitution strings.");
        }
        if (!setup.logs) return;
        const replaced = values.length === 0 ? format : format.replace(/%(%|s)/g, (_, kind) => (kind === "%" ? "%" : values.shift()));
        if (log.length + String(replaced).length > MOST_LOG) {
          refuse(413, 'Resulting message would be too large because of "x-ms-documentdb-script-log-results".');
        }
        log += replaced;
      },
    };
  }

  return {
    start: (entry, parameters) => void entry(...JSON.parse(parameters)),

    // Returns the next operation as JSON; undefined at the end of the script.
    take() {
      if (aborted) throw aborted.error;
      running = queue.shift();
      return running && JSON.stringify(running.call);
    },

    // Passes the result of the operation to its callback.
    complete(replyText, isAccepting) {
      const { error, resource, options } = JSON.parse(replyText);
      const { call, callback } = running;
      accepts = isAccepting;
      if (error) {
        const failure = new NumberedError(error.number, error.body);
        failure.body = error.body;
        if (!callback) throw failure;
        callback(failure);
      } else if (callback) {
        if (call.operation === "delete") callback(undefined, options);
        else callback(undefined, resource === null ? undefined : resource, options);
      }
    },

    define: (name, entry) => void functions.set(name, entry),

    // Calls a user-defined function. `missing` lists the arguments that are undefined.
    evaluate(name, parametersText, missing) {
      const parameters = JSON.parse(parametersText);
      for (const at of JSON.parse(missing)) parameters[at] = undefined;
      return JSON.stringify(functions.get(name)(...parameters));
    },

    describe(error) {
      const isObject = typeof error === "object" && error !== null;
      const stack = isObject && typeof error.stack === "string" ? error.stack : "";
      // The frames of this file, and of the `Reflect.construct` that makes an error.
      const isOwn = (line) => line.includes("server_side_api.js") || line.trim() === "at construct (native)";
      const frames = stack.split("\n").filter((line) => line !== "" && !isOwn(line));
      const number = isObject && Number.isInteger(error.number) ? error.number : 0;
      return JSON.stringify({ text: String(error), frames, number });
    },

    log: () => log,

    finish() {
      const body = context.getResponse && context.getResponse().getBody();
      return JSON.stringify({ request: context.getRequest().getBody(), response: body });
    },
  };
})
