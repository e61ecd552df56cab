/**
 * What agcore promises, one behaviour a line, and where each promise comes from.
 *
 * A test says what it verifies in a comment above it: `// verifies: tool.captured-services`.
 */
export interface Requirement {
  readonly id: string
  /** A published specification, or what asks for the behaviour in this project. */
  readonly source: string
  readonly behaviour: string
}

const from = (source: string, behaviours: Record<string, string>): ReadonlyArray<Requirement> =>
  Object.entries(behaviours).map(([id, behaviour]) => ({ id, source, behaviour }))

const SPECIFICATION = "AG Core tool system, phase 2"
const JSON_SCHEMA = "https://json-schema.org/specification"
const CHAT_COMPLETIONS = "https://platform.openai.com/docs/api-reference/chat"
const SSE = "https://html.spec.whatwg.org/multipage/server-sent-events.html"
const GEN_AI = "https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-agent-spans/"
const EFFECT_AI = "effect/ai"
const PACKAGE = "package"
const COMMAND = "command line"
const COMPACTION = "conversations that last"
const BUDGETS = "budgets and stops"
const LARGE_RESULTS = "large results"
const AUDIT = "audit log"
const PEOPLE = "people in the loop"
const STORES = "kept conversations"
const OPENAI_SPEED = "speed of the OpenAI layer"
const MCP = "https://modelcontextprotocol.io/specification"

export const requirements: ReadonlyArray<Requirement> = [
  // Tools
  ...from(SPECIFICATION, {
    "tool.layer": "a tool is a service: its layer is its implementation, and another layer replaces it",
    "tool.missing-is-type-error": "a registry layer requires the service of each of its tools",
    "tool.requirements":
      "what a handler requires becomes a requirement of the tool's layer, save what each call brings",
    "tool.captured-services": "a handler uses the services of its layer, whatever the caller provides",
    "tool.unique-key": "two tool classes never share an implementation, even under one name",
    "tool.decoded-parameters":
      "a handler gets decoded parameters: dates, big integers and defaults are what the schema says",
    "tool.encoded-result": "a result is encoded by the schema of success",
    "tool.unfitting-result": "a result that does not fit the schema of success is a failed execution that says so",
    "tool.typed-failure": "a typed failure is a failed execution that holds the encoded failure",
    "tool.defect": "a defect of a handler is a failed execution, logged with its cause",
    "tool.self-interruption": "a handler that interrupts itself is a failed execution",
    "tool.no-parameters": "a tool without parameters takes an empty object",
    "tool.context": "a handler can read session, trace, call, turn, index and idempotency key of its call",
    "tool.idempotency-key":
      "the idempotency key of a call is the same over retries and restarts, and differs between calls",
    "tool.signal": "the signal of a call aborts when the call is interrupted or times out",
    "tool.shared-state": "calls of one conversation share a state, calls of two do not",
    "tool.output": "a handler answers with a value, or with an output that says what it is"
  }),
  ...from(JSON_SCHEMA, {
    "tool.object-root": "a tool whose parameters are not an object is refused when it is registered",
    "dynamic.dialects": "a dynamic tool takes JSON Schema of 2020-12 and of draft-07",
    "dynamic.validates": "arguments of a dynamic tool are checked before its handler runs",
    "dynamic.invalid-schema": "a schema that does not compile is refused at registration",
    "dynamic.unchecked": "arguments pass unchecked only where the caller asked for it"
  }),
  ...from(CHAT_COMPLETIONS, {
    "tool.name": "a name that providers refuse is refused at registration, or mapped reversibly when asked",
    "tool.name-collision": "two names that would be one to the provider are an error"
  }),
  ...from(EFFECT_AI, {
    "bridge.from-toolkit": "a toolkit's tools can be registered, its handlers staying a requirement",
    "bridge.to-toolkit":
      "a registry is a toolkit for code that calls the model itself, under the same policy and limits"
  }),

  // Registry
  ...from(SPECIFICATION, {
    "registry.register": "tools can be added, found by name and removed while the registry lives",
    "registry.duplicate": "a second tool of one name is refused, never a silent replacement",
    "registry.static-duplicate": "two tools of one name in one registry layer are a defect when it is built",
    "registry.scoped": "a tool registered in a scope is gone when the scope closes",
    "registry.find": "tools are found by tag and by category",
    "registry.order": "definitions come in one stable order",
    "registry.cached-definitions": "definitions are the same value until the registry changes",
    "registry.changes": "each change of the registry is published",
    "registry.view": "a view by name, tag, category or predicate offers nothing else",
    "registry.snapshot": "a call resolves against the tools as they were when its turn began",
    "registry.stats": "calls, failures by reason, total and longest duration are counted per tool",
    "registry.invocation-data": "an invocation is plain data",
    "admit.order":
      "a call is looked up, then permitted, then decoded; nothing of the tool runs before the policy answered",
    "admit.json-arguments": "a policy sees the JSON arguments as they came",
    "invoke-all.order": "results of calls made together come in call order, one for each",
    "invoke-all.independent": "a failed call leaves its siblings alone",
    "invoke-all.concurrency": "no more calls run at once than allowed",
    "invoke.exclusive": "calls with one exclusivity key run one after the other, across conversations",
    "invoke.exclusive-reentrant": "a tool that calls back under its own key does not wait for itself",
    "invoke.exclusive-first": "a call waits for its key before it takes a permit",
    "invoke.timeout": "a call that takes too long is interrupted and answers with a recoverable error",
    "invoke.timeout-default": "a call may take 60 seconds unless set otherwise",
    "invoke.timeout-excludes-waiting": "waiting for a key or a permit does not count as running",
    "invoke.timeout-still-running": "a timeout tells whether the work stopped or goes on",
    "invoke.interruption": "interruption from outside interrupts the tool and is never a result",
    "invoke.result-limit": "a result over the limit is cut between characters and says how much is missing",
    "invoke.whole-result": "the whole of a cut result stays in the invocation"
  }),

  // Permissions
  ...from(SPECIFICATION, {
    "permission.denied-first": "a denied permission is denied, even if it is allowed as well",
    "permission.allowed": "an allowed permission is allowed",
    "permission.not-listed": "a permission missing from a list of allowed ones is denied",
    "permission.unspecified":
      "without a list of allowed ones, and for tools that declare none, the setting for unspecified decides",
    "permission.defaults": "by default reading and network are allowed, deleting and the shell denied",
    "permission.custom": "a permission of the application's own is decided like the others",
    "permission.ask": "a policy may ask; no answer in time is a denial",
    "permission.failing-policy": "a policy that fails or dies denies",
    "permission.required": "a registry cannot be built without a policy; allowing everything is spelled out",
    "permission.shared": "several registries can share one policy"
  }),

  // Errors
  ...from(SPECIFICATION, {
    "error.reasons": "every reason of a tool error is produced by its cause and can be caught by name",
    "error.recoverable": "each reason says whether another try by the model can help",
    "error.message": "a message for the model is short and names no hidden tool, path or stack",
    "error.serialisable": "errors survive encoding and decoding",
    "error.policy": "which reasons the model is told about is a setting"
  }),

  // The cycle
  ...from(SPECIFICATION, {
    "cycle.submit": "a plain submit adds the prompt, asks once and offers no tools",
    "cycle.submit-messages": "submitting messages adds no user message",
    "cycle.tools": "with tools, calls are run and their results sent back until the model answers without calls",
    "cycle.stream": "streaming gives the same transcript and results as the plain loop",
    "cycle.messages": "the whole transcript can be read",
    "cycle.max-turns": "on the last allowed turn calls are answered as not executed and the cycle fails",
    "cycle.max-turns-answer": "the last allowed turn may still answer",
    "cycle.recoverable": "a recoverable failure is told to the model and the loop goes on",
    "cycle.fatal": "a fatal failure ends the cycle with a typed error",
    "cycle.fatal-before-run": "if a call is refused fatally before anything ran, no call of that turn runs",
    "cycle.fatal-siblings": "if a call fails fatally while running, its siblings settle first",
    "cycle.incomplete": "calls of an incomplete response are not run, and the cycle fails",
    "cycle.finish-words": "complete calls run whatever word the server finished with",
    "cycle.done": "a response without calls ends the cycle with its reason",
    "cycle.pause": "a paused response is asked to go on",
    "cycle.plain-calls": "calls in the answer to a plain submit are answered as not executed, and it fails",
    "cycle.provider-executed": "calls that the provider runs itself pass through",
    "cycle.queue": "submits on one conversation take their turn; a stream keeps its place until it ends or is left",
    "cycle.busy": "a tool that submits to the conversation it runs in fails at once",
    "cycle.usable-after-failure": "after any failure the conversation can go on",
    "cycle.many-turns": "a thousand turns neither overflow nor slow down out of proportion",
    "cycle.usage": "usage adds up over turns",
    "cycle.budget": "a spent budget of tokens ends the cycle before the next model call",
    "cycle.stop-when": "a condition of the application's own can end the loop",
    "cycle.prepare-turn": "model options and tools can be chosen for each turn",
    "cycle.tool-choice": "the choice of tools reaches the model",
    "cycle.system": "the system message is sent with each call and is no part of what was said",
    "cycle.compaction": "compaction shortens what is sent and keeps the history valid",
    "cycle.one-rule": "plain and streaming loops pass one suite",
    "retry.model-only": "only the model call is retried, and only before anything of it was shown or run",
    "retry.after": "a retry waits as long as the server asks",
    "retry.readonly-mcp": "a tool is run again only after an MCP timeout, once, and if it is readonly or idempotent",
    "history.invariant": "every call is answered exactly once, in the next message, in call order, at every instant",
    "history.interruption": "an interruption leaves a valid history and keeps the text streamed so far",
    "history.provisional": "a call that has not settled is answered provisionally",
    "history.call-ids": "call ids that a server repeats are made unique",
    "history.restore": "a stored history can be loaded and gone on with",
    "event.order": "deltas, then accepted and rejected calls, then the end of the turn, then results",
    "event.completed-once": "each started call completes exactly once",
    "event.rejected": "a call that never starts is rejected, and does not complete",
    "event.last": "a stream ends with its completion or with a typed error, never both",
    "event.stop-early": "a consumer that leaves stops the model request and every running tool",
    "event.backpressure": "a slow consumer slows the source, and makes no tool time out",
    "event.progress": "progress is dropped when there is no room, never awaited",
    "event.serialisable": "events survive encoding and decoding"
  }),
  ...from(EFFECT_AI, {
    "cycle.any-model": "the loop runs over any language model",
    "cycle.no-own-resolution": "the model layer runs no tool by itself"
  }),
  ...from(GEN_AI, {
    "trace.spans": "agent, chat and each tool have spans with call id and type of error",
    "trace.content": "parameters and results are recorded only when asked",
    "trace.metrics": "calls, failures, durations and tokens are measured"
  }),

  // Chat Completions
  ...from(CHAT_COMPLETIONS, {
    "openai.recordings": "every recorded stream gives what it must, wherever its chunks are cut",
    "openai.plain": "plain answers and streams give the same parts",
    "openai.profile": "what differs between servers is data; unknown servers get a tolerant default",
    "openai.empty-tools": "empty tools, calls and what depends on them are left out of the request",
    "openai.bad-arguments": "truncated or unreadable arguments travel as they came and are never run",
    "openai.round-trip": "fields of a call that are not understood are sent back as they came",
    "openai.usage": "the last usage counts, never a sum",
    "openai.retries": "the transport does not retry on its own",
    "openai.errors": "failures of the server become typed errors that tell whether and when to try again",
    "openai.media": "images and files go where the API takes them",
    "openai.reasoning": "reasoning is replayed as the server wants it"
  }),
  ...from(SSE, {
    "openai.interruption": "interrupting a stream closes its socket",
    "openai.timeouts": "waiting for the first byte and between chunks is bounded",
    "openai.keep-alive": "keep-alive lines are no data"
  }),

  // Package
  ...from(PACKAGE, {
    "package.exports": "the exports map, the index files and the source agree",
    "package.documented": "every public export is documented",
    "package.examples": "every code block is run by a test",
    "package.direction": "folders import in one direction, without cycles",
    "package.neutral": "no entry point needs Node, and only the OpenAI layer needs openai",
    "package.installs": "the packed package installs into an empty project and runs there",
    "package.compilers": "it compiles with TypeScript 5.9, 6 and 7 without skipping library checks",
    "package.private": "paths inside of the package cannot be imported",
    "package.node": "scripts run on the Node that comes with the install"
  }),

  // MCP
  ...from(MCP, {
    "mcp.negotiate": "every revision is spoken, and found out without help",
    "mcp.neighbours": "a broken item of any kind costs its neighbours nothing; null is absent",
    "mcp.tolerant": "noise and oddities of what arrives are passed over, and told",
    "mcp.fail-fast": "whichever way a server goes away, pending calls fail at once with the reason",
    "mcp.deadline": "each call ends with its own time, and the server is told",
    "mcp.cancel": "interrupting a call tells the server and disturbs no other",
    "mcp.pages": "lists are read whole within limits, and what was read is kept",
    "mcp.list-changed": "lists follow the server's announcements, coalesced",
    "mcp.limits": "what is too large fails its call, and the connection goes on",
    "mcp.processes": "no process of a server outlives us, however we end",
    "mcp.environment": "a server sees the allow-list and what was configured",
    "mcp.restart": "a supervised server is started again",
    "mcp.asking": "servers may ask for models, input and roots where somebody answers, and are declined otherwise",
    "mcp.input-required": "required input is given with the untouched state, in at most ten rounds",
    "mcp.output-schema": "structured content is checked, unless the tool reports a failure",
    "mcp.many-calls": "ten thousand calls, and 64 at a time, each get their own answer",
    "mcp.real-servers": "servers from npm work over stdio and HTTP",
    "mcp.http-sessions": "sessions are renewed once, streams resumed, and both ended",
    "mcp.http-refusals": "statuses, redirects and answers that are none are typed reasons",
    "mcp.names": "tools are named after their server: valid, stable, without collision",
    "mcp.permissions": "a server's word widens no permission",
    "mcp.follow": "registered tools follow the server's list, and stay or leave while it is away",
    "mcp.config": "a mistake in mcp.json is told with path, line and what was expected",
    "mcp.isolation": "one broken server does not stop the others"
  }),

  // Command line
  ...from(COMMAND, {
    "cli.demo": "the demo runs without a key: a scripted model over HTTP that says it is one, tools, an MCP server",
    "cli.run": "a prompt is answered, with tool events on the terminal",
    "cli.json": "events can be written as one JSON value a line",
    "cli.quiet": "only the answer is written when asked",
    "cli.tools": "what is registered is listed, with where it comes from and its permissions",
    "cli.call": "one tool can be called, under the policy",
    "cli.policy": "permissions can be allowed and denied",
    "cli.asks": "the command asks on the terminal before a call that nothing grants, and shows the whole of it",
    "cli.exit-codes": "exit codes tell success, failure and wrong use apart",
    "cli.colours": "colours are for terminals only",
    "cli.interrupt": "an interrupt leaves no process behind",
    "cli.help": "each command explains itself",
    "cli.errors": "an error says what to do about it"
  }),
  // Compaction
  ...from(COMPACTION, {
    "compaction.valid": "after any strategy each call is followed by exactly its results, and nothing needs a repair",
    "compaction.keeps": "system messages, the last turns, and the first and last thing a person said stay whole",
    "compaction.identity": "what stays are the same objects in the same order, from request to request",
    "compaction.idempotent": "a transcript that fits stays as it is",
    "compaction.pin": "what is pinned stays, with the turn it belongs to",
    "compaction.trigger": "it is due at its trigger, before the window is reached, and leads to its target",
    "compaction.turns": "the number of turns goes on, whatever is left of them",
    "compaction.failure": "a strategy that fails, dies, takes too long or loses what must stay changes nothing",
    "compaction.summary": "a summary takes the place of what it tells of, and the next one takes it over",
    "compaction.estimate": "tokens are estimated near what encodings give",
    "compaction.calibration": "what a provider reports corrects the estimate: up at once, down slowly, within bounds",
    "compaction.tokenizer": "a tokenizer that is there counts, once for each message",
    "compaction.overflow-detection":
      "a refusal for length is known by each provider's words and codes, and nothing else is",
    "compaction.overflow": "a refusal for length leads to one more, shorter request",
    "compaction.exceeded": "a conversation that cannot become short enough fails with how much too long it is",
    "compaction.pending": "nothing is touched while somebody is asked",
    "compaction.service": "cycles take their compaction from the context, unless they have their own",
    "compaction.event": "a compaction is told before anything of the turn it is for",
    "compaction.cycle": "a conversation under a small window stays sound, whatever is refused, asked or interrupted",
    "compaction.long": "300 tool turns of 20 KB stay under 32k tokens, with what the strategy keeps of turn 1"
  }),
  // Budgets and stops
  ...from(BUDGETS, {
    "budget.price-table": "a price table holds prices that are numbers, in one currency",
    "budget.price-parts":
      "tokens cost what they were used for: uncached, read from a cache, written to it, text, reasoning",
    "budget.never-free": "tokens of a model without a price, or that nobody counted, are an error and never free",
    "budget.fail": "a limit that is reached says which it is, how much it is and what was used",
    "budget.zero": "a budget of nothing asks nothing",
    "budget.invalid": "a limit that is negative or no number is an error before anything is asked",
    "budget.estimate": "what a provider does not count is estimated, so that a budget is held all the same",
    "budget.cost": "a budget of money counts what tokens cost",
    "budget.model-name": "a price goes by the name the provider gives the model, else by the one that was asked",
    "budget.unpriced": "with a budget of money no model is asked that has no price",
    "budget.last-turn": "at a limit the model can be asked once more, without tools, to conclude",
    "budget.duration": "a budget of time stops a request to the model",
    "budget.duration-tools": "a budget of time stops running tools, starts none that waits, and each is answered",
    "budget.duration-last-turn":
      "when time is up, a request may end and the model conclude, within a limit of their own",
    "budget.people": "waiting for a person takes nothing of a budget of time, and its other limits go on after it",
    "budget.pause": "at a limit the submit can pause, with its calls run; resumed, it has its whole budget anew",
    "budget.pause-kept": "a paused submit goes on in another process, and what was spent is known there",
    "budget.nested": "what cycles inside of tools spend is charged to those around them, whose limits hold them",
    "budget.totals": "tokens, cost and time are reported for each submit and for the conversation",
    "stop.conditions": "conditions as values end a submit with the turn in which they hold",
    "stop.combined": "conditions are combined with each other and with functions of one's own",
    "stop.mistake": "a condition with a number that is none stops a submit rather than let it go on",
    "stop.repeated": "the same call with the same result, in ten turns, ends the submit with an error",
    "stop.progress": "a call that has another result, or something new beside it, is no repetition"
  }),
  // Large results
  ...from(LARGE_RESULTS, {
    "result-store.whole": "a stored result is read in pages that are the whole text together and break no character",
    "result-store.search": "a search finds a text as it is written, says where, and goes on where it stopped",
    "result-store.session": "to another session a stored result does not exist, whatever handle it has",
    "result-store.bounded": "a store keeps to its room: the oldest goes for the newest, and one too large is refused",
    "result-store.restart": "results in files outlive the process, with their handles",
    "result-store.private": "files of results are for their owner only",
    "result-store.atomic": "a full disk or an interruption leaves no part of a result behind",
    "result-store.damaged": "a damaged file is an error, never a result",
    "spill.whole": "a result over the limit is stored whole, and the model is shown its start and how to read on",
    "spill.within-limit": "the start and what is said about the rest keep to the limit together",
    "spill.model-output": "text that is shown in place of a value is stored as one, and files are shown whole",
    "spill.failure": "a failure of a tool is stored like a result",
    "spill.no-reader": "where no tool reads stored results, the model is told that the rest is out of reach",
    "spill.once": "what a registry has cut and stored is not stored again by another with the same limit",
    "spill.fallback": "a result that cannot be stored in time is cut, which is logged and fails nothing",
    "spill.restart": "a handle that a process gave is good in the next one, under the same session",
    "read-result.pages": "a page of a stored result is never cut itself",
    "read-result.search": "a model finds every place of a text by searching on",
    "read-result.session": "a session reads its own results only, and cannot tell others' from none",
    "read-result.policy": "a stored result is closed to whom the policy now denies the call it came from"
  }),
  // Audit
  ...from(AUDIT, {
    "audit.entries": "a call leaves who, which session, turn and place, tool and arguments, verdict, outcome, duration",
    "audit.before": "the first entry of a call is written before anything of it runs",
    "audit.verdicts": "a refused call leaves who refused it and why",
    "audit.people": "a call that a person decides on leaves what they decided, and what it ran with",
    "audit.outcomes": "a call that failed leaves how",
    "audit.interrupted": "an interrupted call leaves that, and how long it ran",
    "audit.trace": "a call whose process is killed leaves a first entry without a second",
    "audit.fails-closed": "a call whose first entry cannot be written does not run",
    "audit.bounded": "a log that hangs holds no call for longer than its time",
    "audit.end-lost": "a second entry that cannot be written is logged and changes no result",
    "audit.redacted": "what a name, a schema or a well-known form tells to be secret is not written",
    "audit.redact-custom": "the application says what is written of arguments",
    "audit.bounded-entries": "an entry is small and made in little time, whatever a model makes up",
    "audit.custom": "an application brings a log of its own",
    "audit.tampering": "whatever is changed, removed, added or moved in a log, the first such line is found",
    "audit.form": "a line counts in the form it was written in, and in no other",
    "audit.anchor": "an end that was cut off is found by who knows what was there",
    "audit.continues": "a log goes on where it ended",
    "audit.torn": "a line that was left half written is accounted for, and the chain stays whole",
    "audit.refuses": "a log does not go on from what was changed",
    "audit.full-disk": "a full disk fails the entry and not the log",
    "audit.interruption": "an interruption leaves no half of an entry",
    "audit.stale-lock": "a lock that a killed process has left is taken away",
    "audit.processes": "processes that share a file write one chain",
    "audit.killed": "what was written before the process was killed is there, and the log goes on",
    "audit.sql": "a table holds the same chain as a file",
    "audit.sql-tampering": "what is changed in a table is found as in a file",
    "audit.sql-writers": "connections that share a table write one chain",
    "audit.command": "a command says whether a log is in order, and where it is not",
    "audit.command-usage": "the command ends with 2 where there is nothing to check"
  }),
  // People in the loop
  ...from(PEOPLE, {
    "asking.suspend": "without an approver a submit comes to rest with its open questions and goes on with the answers",
    "asking.siblings": "the other calls of a turn run while one waits, and keep their results",
    "asking.deny": "a denied call never runs, and the model is told why",
    "asking.edit": "a person may change a call's arguments: they are checked, and the model is told what ran",
    "asking.partial": "questions without an answer stay open",
    "asking.bound": "an answer holds for the question it names and for nothing else",
    "asking.once": "an answer is used once, and an approved call runs once",
    "asking.exclusive": "a conversation that waits takes answers only",
    "asking.needs-approval": "a tool may need approval by a value or by its arguments; in doubt it asks",
    "asking.elsewhere": "a stored conversation goes on with its answers in another process",
    "asking.changed": "a call whose tool has changed is another question",
    "asking.approver": "an approver is asked while the other calls run",
    "session.killed-waiting":
      "a process that is killed while a call waits loses neither its question nor other results",
    "session.killed-running":
      "a process that is killed while calls run leaves a sound conversation, and none runs again",
    "session.cut-off": "a submit that is resumed asks again for text that was cut off, and does not send it",
    "session.sound": "a conversation stays sound over interruption, crash, reload, compaction and a store that fails",
    "asking.sound":
      "whatever is approved, denied, changed or left open, no denied call runs and an approved one runs once",
    "transcript.rules": "the check of transcripts finds what providers refuse",
    "transcript.every-request": "every request of a generated conversation is one that providers take",
    "transcript.accepted": "what a server is sent keeps to the rules of its provider",
    "session.running-not-repeated": "a call that may have run before a restart is not run again",
    "sub-agent.answer": "a sub-agent is a tool: it is told a task, and its answer is the result",
    "sub-agent.tools": "a sub-agent is offered no tool that the turn that calls it is not",
    "sub-agent.policy": "a sub-agent can do no more than the cycle above it",
    "sub-agent.usage": "what a sub-agent uses is counted above it",
    "sub-agent.asking": "when a sub-agent's calls wait, its own call waits",
    "sub-agent.events": "the events of a sub-agent are nested in the stream above it",
    "object.decoded": "an answer of a shape is decoded by its schema, with tools in the same run",
    "object.repaired": "an answer that does not fit is sent back, a bounded number of times",
    "object.early": "an answer beside other calls is not taken before their results",
    "object.resumed": "a submit that is after an answer of a shape goes on to it when it is resumed",
    "output.awaiting-input": "a tool may ask back and goes on with the answer and its own context",
    "output.streamed": "a streamed result tells each value as progress, and its last one is the result"
  }),
  // Kept conversations
  ...from(STORES, {
    "store.whole": "what is loaded is everything that was saved, in another store over the same place",
    "store.conflict": "of two writers of one revision one saves, and the other is told; nothing is merged",
    "store.processes": "processes that share a directory save each revision once",
    "store.crash": "a process may end at any point of a save: the conversation before or after it is loaded",
    "store.damage": "a file that a disk has damaged costs one revision, and that is said",
    "store.ids": "any text is an id, and no two are taken for each other",
    "store.json": "what has no JSON is refused, and where it stands is said",
    "store.formats": "what was written once is read for ever, older forms are migrated, newer ones refused untouched",
    "store.private": "files of conversations are for their owner only",
    "store.cheap": "a message is encoded once, however often its conversation is saved",
    "store.bounded": "a store that does not answer is not waited for longer than its time",
    "store.interruption": "an interrupted save is finished before the interruption goes on"
  }),
  // The speed of the OpenAI layer
  ...from(OPENAI_SPEED, {
    "openai-speed.parts": "parts are the same whether effect/ai decodes them or the layer makes them",
    "openai-speed.chunks": "reading only what differs from the chunk before gives what reading all of it does",
    "openai-speed.kept": "a request holds the same whether its messages and tools were in an earlier one or not",
    "openai-speed.transports": "every way to send a request gives the same parts, limits and errors"
  })
]
