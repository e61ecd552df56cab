import { assert, describe, it } from "@effect/vitest"
import { OpenAiModel, ProviderProfile } from "agcore/openai"
import { Effect, Redacted, Schema, Stream } from "effect"
import { type LanguageModel, Prompt, type Response, Tool, Toolkit } from "effect/ai"
import { events, generate, Get, hello, json, type Question, serve, stream, tools } from "./support.ts"

const answer = json({ choices: [{ message: { content: "{}" }, finish_reason: "stop" }] })

/** The request a server receives. */
const sent = (
  profile: ProviderProfile.ProviderProfile,
  question: Question = {},
  options: Partial<OpenAiModel.Options> = {}
) =>
  Effect.gen(function*() {
    const { baseUrl, received } = yield* serve(answer)
    yield* generate({ model: "m", baseUrl, profile, apiKey: Redacted.make("sk-0123456789"), ...options }, question)
    return yield* received
  })

const messages = (profile: ProviderProfile.ProviderProfile, prompt: Prompt.RawInput) =>
  Effect.map(sent(profile, { prompt }), ({ body }) => body["messages"])

const presets = Object.entries(ProviderProfile).filter((entry): entry is [string, ProviderProfile.ProviderProfile] =>
  typeof entry[1] === "object"
).map(([name, profile]) => ({ name, profile }))

const only = (...names: ReadonlyArray<keyof typeof ProviderProfile>) => (name: string): boolean =>
  (names as ReadonlyArray<string>).includes(name)

describe("a request", () => {
  it.effect.each(presets)("of $name holds nothing nobody asked for", ({ name, profile }) =>
    Effect.gen(function*() {
      const { body, headers, path } = yield* sent(profile)
      assert.deepStrictEqual(body, { model: "m", messages: [{ role: "user", content: "hello" }] })
      assert.strictEqual(path, "/v1/chat/completions")
      const inOwnHeader = only("azure")(name)
      assert.strictEqual(headers["api-key"], inOwnHeader ? "sk-0123456789" : undefined)
      assert.strictEqual(headers.authorization, inOwnHeader ? undefined : "Bearer sk-0123456789")
    }))

  it.effect.each(presets)(
    "of $name asks for usage in a stream if the server knows how",
    ({ name, profile }) =>
      Effect.gen(function*() {
        const { baseUrl, received } = yield* serve(events(hello))
        yield* Stream.runDrain(stream({ model: "m", baseUrl, profile, apiKey: Redacted.make("sk-0123456789") }))
        const { body } = yield* received
        assert.isTrue(body["stream"])
        assert.deepStrictEqual(body["stream_options"], only("mistral")(name) ? undefined : { include_usage: true })
      })
  )

  it.effect.each(presets)("of $name needs a key or not", ({ name, profile }) =>
    Effect.gen(function*() {
      const { baseUrl } = yield* serve(answer)
      const result = yield* Effect.result(generate({ model: "m", baseUrl, profile }))
      const local = only("tolerant", "vllm", "llamaCpp", "ollama", "lmStudio")(name)
      assert.strictEqual(result._tag, local ? "Success" : "Failure")
    }))

  it.effect("has the headers of the options, the query of the base URL, and the parameters in force", () =>
    Effect.gen(function*() {
      const { baseUrl, received } = yield* serve(answer)
      const parameters: OpenAiModel.Parameters = {
        temperature: 0.5,
        topP: 0.9,
        maxTokens: 10,
        stop: ["END"],
        seed: 7,
        reasoningEffort: "low",
        parallelToolCalls: true,
        body: { user: "u1", top_p: 1 }
      }
      yield* generate({
        model: "m",
        baseUrl: `${baseUrl}/?api-version=1`,
        headers: { "x-app": "test", "x-secret": Redacted.make("hidden") },
        parameters
      }).pipe(Effect.provideService(OpenAiModel.CurrentParameters, { temperature: 0 }))
      const { body, headers, path } = yield* received
      assert.strictEqual(path, "/v1/chat/completions?api-version=1")
      assert.strictEqual(headers["x-app"], "test")
      assert.strictEqual(headers["x-secret"], "hidden")
      assert.deepStrictEqual(body, {
        model: "m",
        messages: [{ role: "user", content: "hello" }],
        temperature: 0,
        top_p: 1,
        max_tokens: 10,
        stop: ["END"],
        seed: 7,
        reasoning_effort: "low",
        user: "u1"
      })
    }))

  it.effect.each(presets)(
    "of $name limits the answer in the field the server reads",
    ({ name, profile }) =>
      Effect.gen(function*() {
        const { body } = yield* sent(profile, {}, { parameters: { maxTokens: 5 } })
        const field = only("openai", "azure", "groq")(name) ? "max_completion_tokens" : "max_tokens"
        assert.strictEqual(body[field], 5)
      })
  )
})

describe("tools", () => {
  const definition = (body: Record<string, any>, position = 0) => body["tools"][position].function

  it.effect.each(presets)(
    "are offered to $name, in parallel if it knows how",
    ({ name, profile }) =>
      Effect.gen(function*() {
        const { body } = yield* sent(profile, { toolkit: tools }, { parameters: { parallelToolCalls: false } })
        assert.deepStrictEqual(body["tools"].map((tool: any) => [tool.type, tool.function.name]), [
          ["function", "get"],
          ["function", "put"]
        ])
        assert.notProperty(body, "tool_choice")
        const unknown = only("deepSeek", "gemini", "together", "ollama", "lmStudio")(name)
        assert.strictEqual(body["parallel_tool_calls"], unknown ? undefined : false)
        const strict = only("openai", "azure")(name)
        assert.deepStrictEqual(definition(body).strict, strict ? true : undefined)
        assert.strictEqual(
          definition(body).parameters.additionalProperties,
          {
            true: false,
            false: only("gemini")(name) ? undefined : true
          }[String(strict) as "true"]
        )
      })
  )

  it.effect("are chosen in the words of the API", () =>
    Effect.gen(function*() {
      const named = { type: "function", function: { name: "get" } }
      const choices: ReadonlyArray<[LanguageModel.ToolChoice<string>, unknown, number]> = [
        ["auto", undefined, 2],
        ["none", "none", 2],
        ["required", "required", 2],
        [{ tool: "get" }, named, 2],
        [{ oneOf: ["get"] }, undefined, 1],
        [{ mode: "required", oneOf: ["get"] }, named, 1],
        [{ mode: "required", oneOf: ["get", "put"] }, "required", 2]
      ]
      for (const [toolChoice, expected, count] of choices) {
        const { body } = yield* sent(ProviderProfile.openai, { toolkit: tools, toolChoice })
        assert.deepStrictEqual(body["tool_choice"], expected)
        assert.lengthOf(body["tools"], count)
      }
    }))

  // verifies: openai.empty-tools
  it.effect("leave out everything about tools when there are none", () =>
    Effect.gen(function*() {
      const { body } = yield* sent(
        ProviderProfile.openai,
        { toolkit: Toolkit.empty, toolChoice: "none" },
        { parameters: { parallelToolCalls: true } }
      )
      for (const field of ["tools", "tool_choice", "parallel_tool_calls"]) assert.notProperty(body, field)
    }))

  it.effect("are not streamed where the server can't, and give the same parts", () =>
    Effect.gen(function*() {
      const { baseUrl, received } = yield* serve(json({
        choices: [{ message: { tool_calls: [{ id: "a", function: { name: "get", arguments: "{\"x\":1}" } }] } }]
      }))
      const profile = { ...ProviderProfile.tolerant, streamTools: false }
      const parts = yield* Stream.runCollect(stream({ model: "m", baseUrl, profile }, { toolkit: tools }))
      assert.notProperty((yield* received).body, "stream")
      assert.deepStrictEqual(parts.map((part) => part.type), [
        "tool-params-start",
        "tool-params-delta",
        "tool-params-end",
        "tool-call",
        "finish"
      ])
    }))

  const schema = (parameters: unknown, profile = ProviderProfile.openai, strict?: boolean) => {
    const tool = Tool.dynamic("t", { parameters: parameters as {} })
    const toolkit = Toolkit.make(strict === undefined ? tool : tool.annotate(Tool.Strict, strict))
    return Effect.map(sent(profile, { toolkit }), ({ body }) => definition(body))
  }

  it.effect("are strict where their schema can be", () =>
    Effect.gen(function*() {
      const { parameters, strict } = yield* schema({
        $schema: "https://json-schema.org/draft/2020-12/schema",
        type: "object",
        properties: {
          a: { type: "object", properties: { b: { $ref: "#/$defs/B" } }, required: ["b"] },
          c: { type: "array", items: { anyOf: [{ type: "string", format: "date" }, { type: "null" }] } }
        },
        required: ["a", "c"],
        $defs: { B: { type: "string", enum: ["x"] } }
      })
      assert.isTrue(strict)
      assert.deepStrictEqual(parameters, {
        type: "object",
        properties: {
          a: { type: "object", properties: { b: { $ref: "#/$defs/B" } }, required: ["b"], additionalProperties: false },
          c: { type: "array", items: { anyOf: [{ type: "string", format: "date" }, { type: "null" }] } }
        },
        required: ["a", "c"],
        additionalProperties: false,
        $defs: { B: { type: "string", enum: ["x"] } }
      })
    }))

  const loose = {
    "an optional property": { type: "object", properties: { a: { type: "string" } } },
    "a map": {
      type: "object",
      properties: { a: { type: "object", additionalProperties: { type: "string" } } },
      required: ["a"]
    },
    "an open object": { type: "object", properties: { a: { type: "object" } }, required: ["a"] },
    "a value of any type": { type: "object", properties: { a: {} }, required: ["a"] },
    "another keyword": { type: "object", properties: { a: { type: "string", minLength: 1 } }, required: ["a"] },
    "a choice at the root": { type: "object", properties: {}, anyOf: [{ required: [] }], additionalProperties: false }
  }
  it.effect.each(Object.entries(loose).map(([what, parameters]) => ({ what, parameters })))(
    "are not strict with $what, and keep their schema",
    ({ parameters }) =>
      Effect.gen(function*() {
        const got = yield* schema(parameters)
        assert.notProperty(got, "strict")
        assert.deepStrictEqual(got.parameters, parameters)
      })
  )

  it.effect("are not strict when they say so, and always have properties", () =>
    Effect.gen(function*() {
      const got = yield* schema({ type: "object", additionalProperties: false }, ProviderProfile.openai, false)
      assert.deepStrictEqual(got, {
        name: "t",
        parameters: { type: "object", properties: {}, additionalProperties: false }
      })
    }))

  it.effect("are written in the subset Gemini reads", () =>
    Effect.gen(function*() {
      const { parameters } = yield* schema({
        $schema: "https://json-schema.org/draft/2020-12/schema",
        type: "object",
        properties: {
          kind: { const: "a" },
          level: { enum: [1, 2], description: "How much" },
          name: { type: ["string", "null"], description: "A name" },
          size: { oneOf: [{ type: "integer", exclusiveMinimum: 0 }, { type: "string" }] },
          point: { $ref: "#/$defs/Point", description: "Where" },
          tree: { $ref: "#/$defs/Tree" },
          both: { allOf: [{ type: "object", properties: { a: { type: "string" } } }, { required: ["a"] }] },
          list: { type: "array" }
        },
        required: ["kind", "gone"],
        additionalProperties: false,
        $defs: {
          Point: { type: "object", properties: { x: { type: "number" } }, additionalProperties: false },
          Tree: { type: "object", properties: { children: { type: "array", items: { $ref: "#/$defs/Tree" } } } }
        }
      }, ProviderProfile.gemini)
      assert.deepStrictEqual(parameters, {
        type: "object",
        properties: {
          kind: { type: "string", enum: ["a"] },
          level: { type: "number", description: "How much. One of: 1, 2" },
          name: { description: "A name", anyOf: [{ type: "string" }, { type: "null" }] },
          size: { anyOf: [{ type: "integer" }, { type: "string" }] },
          point: { type: "object", description: "Where", properties: { x: { type: "number" } }, required: [] },
          tree: {
            type: "object",
            properties: {
              children: { type: "array", items: { type: "object", properties: {}, required: [] } }
            },
            required: []
          },
          both: { type: "object", properties: { a: { type: "string" } }, required: ["a"] },
          list: { type: "array", items: { type: "string" } }
        },
        required: ["kind"]
      })
    }))

  it.effect("of the provider's own are refused", () =>
    Effect.gen(function*() {
      const search = Tool.providerDefined({
        id: "openai.web_search",
        customName: "Search",
        providerName: "web_search",
        args: Schema.Struct({}),
        parameters: Schema.Struct({}),
        success: Schema.Struct({})
      })({})
      const error = yield* Effect.flip(sent(ProviderProfile.openai, { toolkit: Toolkit.make(search) }))
      assert.strictEqual(error.reason._tag, "ToolConfigurationError")
    }))
})

describe("a JSON answer", () => {
  const City = Schema.Struct({ name: Schema.String, note: Schema.optionalKey(Schema.String) })

  const ask = (profile: ProviderProfile.ProviderProfile, content: string) =>
    Effect.gen(function*() {
      const { baseUrl, received } = yield* serve(json({ choices: [{ message: { content }, finish_reason: "stop" }] }))
      const model = yield* OpenAiModel.make({ model: "m", baseUrl, profile, apiKey: Redacted.make("sk-0123456789") })
      const response = yield* model.generateObject({ prompt: "hello", schema: City, objectName: "a city" })
      return { value: response.value, body: (yield* received).body }
    })

  it.effect("is held to its schema where the server can", () =>
    Effect.gen(function*() {
      const { body, value } = yield* ask(ProviderProfile.openai, "{\"name\":\"Bern\",\"note\":null}")
      assert.deepStrictEqual(value, { name: "Bern" })
      assert.strictEqual(body["response_format"].json_schema.name, "a_city")
      assert.isTrue(body["response_format"].json_schema.strict)
      assert.deepStrictEqual(body["response_format"].json_schema.schema.required, ["name", "note"])
    }))

  it.effect("is described by its schema where it can't", () =>
    Effect.gen(function*() {
      const { body, value } = yield* ask(ProviderProfile.vllm, "{\"name\":\"Bern\"}")
      assert.deepStrictEqual(value, { name: "Bern" })
      assert.notProperty(body["response_format"].json_schema, "strict")
      assert.deepStrictEqual(body["response_format"].json_schema.schema.required, ["name"])
    }))

  it.effect("is described in the prompt where the server knows no schemas", () =>
    Effect.gen(function*() {
      const { body } = yield* ask(ProviderProfile.deepSeek, "{\"name\":\"Bern\"}")
      assert.deepStrictEqual(body["response_format"], { type: "json_object" })
      assert.strictEqual(body["messages"][0].role, "system")
      for (const word of ["JSON", "\"name\""]) assert.include(body["messages"][0].content, word)
    }))

  it.effect("with a schema that can't be held is refused", () =>
    Effect.gen(function*() {
      const { baseUrl } = yield* serve(answer)
      const model = yield* OpenAiModel.make({
        model: "m",
        baseUrl,
        profile: { ...ProviderProfile.openai, requiresApiKey: false }
      })
      const Either = Schema.Union([Schema.Struct({ a: Schema.String }), Schema.Struct({ b: Schema.String })])
      const error = yield* Effect.flip(model.generateObject({ prompt: "hello", schema: Either }))
      assert.strictEqual(error.reason._tag, "UnsupportedSchemaError")
    }))
})

describe("messages", () => {
  const call = (id: string, params: unknown, options = {}) =>
    ({ type: "tool-call", id, name: "get", params, options }) as const
  const result = (id: string, value: unknown, more = {}) =>
    ({ type: "tool-result", id, name: "get", isFailure: false, result: value, ...more }) as const
  const turn = (params: unknown, id = "call_1"): Array<Prompt.MessageEncoded> => [
    { role: "user", content: "hello" },
    { role: "assistant", content: [call(id, params)] },
    { role: "tool", content: [result(id, { ok: true })] }
  ]

  it.effect("are those of the prompt", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual(
        yield* messages(ProviderProfile.openai, [
          { role: "system", content: "Be brief" },
          { role: "user", content: [{ type: "text", text: "one" }, { type: "text", text: "two" }] },
          {
            role: "assistant",
            content: [
              { type: "text", text: "I will " },
              { type: "text", text: "look" },
              call("a", { x: 1 }),
              call("b", {})
            ]
          },
          { role: "tool", content: [result("a", "as it is"), result("b", undefined)] },
          { role: "assistant", content: "done" }
        ]),
        [
          { role: "system", content: "Be brief" },
          { role: "user", content: "one\ntwo" },
          {
            role: "assistant",
            content: "I will look",
            tool_calls: [
              { id: "a", type: "function", function: { name: "get", arguments: "{\"x\":1}" } },
              { id: "b", type: "function", function: { name: "get", arguments: "{}" } }
            ]
          },
          { role: "tool", tool_call_id: "a", content: "as it is" },
          { role: "tool", tool_call_id: "b", content: "null" },
          { role: "assistant", content: "done" }
        ]
      )
    }))

  it.effect.each(presets)(
    "of $name that only call tools have the content it takes",
    ({ name, profile }) =>
      Effect.gen(function*() {
        const [, assistant] = yield* messages(profile, turn({ x: 1 }))
        const expected = only("openai", "azure", "openRouter", "groq")(name)
          ? null
          : only("gemini")(name)
          ? undefined
          : ""
        assert.strictEqual(assistant.content, expected)
      })
  )

  it.effect.each(presets)(
    "of $name have ids it takes, the same in call and result",
    ({ name, profile }) =>
      Effect.gen(function*() {
        const long = `call:${"x".repeat(60)}`
        for (const id of [long, "call_1", "abcDEF123"]) {
          const [, assistant, tool] = yield* messages(profile, turn({}, id))
          const sentId = assistant.tool_calls[0].id
          assert.strictEqual(sentId, tool.tool_call_id)
          if (only("mistral")(name)) assert.match(sentId, /^[A-Za-z0-9]{9}$/)
          else if (only("openai", "azure")(name)) assert.match(sentId, /^[A-Za-z0-9_-]{1,40}$/)
          else assert.strictEqual(sentId, id)
          if (id === "abcDEF123") assert.strictEqual(sentId, id)
        }
      })
  )

  it.effect.each(presets)(
    "of $name replay arguments that are no object as it can read them",
    ({ name, profile }) =>
      Effect.gen(function*() {
        const [, assistant] = yield* messages(profile, turn("{\"x\":"))
        const verbatim = only("openai", "azure")(name)
        assert.strictEqual(
          assistant.tool_calls[0].function.arguments,
          verbatim ? "{\"x\":" : "{\"invalid_arguments\":\"{\\\"x\\\":\"}"
        )
      })
  )

  const reasoned = (text: string): Prompt.MessageEncoded => ({
    role: "assistant",
    content: [
      {
        type: "reasoning",
        text,
        options: { openai: { field: "reasoning", details: [{ type: "reasoning.text", text }] } }
      },
      { type: "text", text: "so" }
    ]
  })
  const thoughts: ReadonlyArray<Prompt.MessageEncoded> = [
    { role: "user", content: "one" },
    reasoned("old"),
    { role: "user", content: "two" },
    reasoned("new")
  ]

  it.effect.each(presets)("of $name replay reasoning when it wants it", ({ name, profile }) =>
    Effect.gen(function*() {
      const [, old, , recent] = yield* messages(profile, thoughts)
      assert.deepStrictEqual(old, { role: "assistant", content: "so" })
      const expected = only("deepSeek", "llamaCpp")(name)
        ? { reasoning_content: "new" }
        : only("openRouter", "vllm", "ollama")(name)
        ? { reasoning: "new" }
        : {}
      const { content: _c, reasoning_details: details, role: _r, ...rest } = recent
      assert.deepStrictEqual(rest, expected)
      if (only("openRouter")(name)) assert.deepStrictEqual(details, [{ type: "reasoning.text", text: "new" }])
    }))

  it.effect("always replay reasoning when told to", () =>
    Effect.gen(function*() {
      const [, old] = yield* messages({ ...ProviderProfile.deepSeek, reasoningReplay: "always" }, thoughts)
      assert.strictEqual(old.reasoning_content, "old")
    }))

  const png = { type: "file", mediaType: "image/png", data: new Uint8Array([1, 2, 3]) } as const
  const pngPart = { type: "image_url", image_url: { url: "data:image/png;base64,AQID" } }

  it.effect.each(presets)(
    "of $name show images in tool results where it takes them",
    ({ name, profile }) =>
      Effect.gen(function*() {
        const modelOutput = [{ type: "text", text: "a chart" }, png] as const
        const all = yield* messages(profile, [
          { role: "user", content: "hello" },
          { role: "assistant", content: [call("abcDEF123", {}), call("abcDEF124", {})] },
          { role: "tool", content: [result("abcDEF123", {}, { modelOutput })] },
          { role: "tool", content: [result("abcDEF124", 2)] },
          { role: "user", content: "and?" }
        ])
        const hidden = only("deepSeek", "mistral")(name)
        const shown = {
          role: "user",
          content: [{ type: "text", text: "Images from the tool results above, in order:" }, pngPart]
        }
        assert.deepStrictEqual(all.slice(2), [
          {
            role: "tool",
            tool_call_id: "abcDEF123",
            content: hidden ? "a chart\n[image/png omitted]" : "a chart\n[image/png below]"
          },
          { role: "tool", tool_call_id: "abcDEF124", content: "2" },
          ...(hidden ? [] : [shown]),
          { role: "user", content: "and?" }
        ])
      })
  )

  // verifies: openai.media
  it.effect("carry images, sounds and documents", () =>
    Effect.gen(function*() {
      const [user] = yield* messages(ProviderProfile.openai, [{
        role: "user",
        content: [
          { type: "text", text: "look" },
          png,
          { type: "file", mediaType: "image/*", data: "AQID", options: { openai: { imageDetail: "low" } } },
          { type: "file", mediaType: "image/jpeg", data: new URL("https://example.com/a.jpg") },
          { type: "file", mediaType: "audio/mpeg", data: new Uint8Array([1, 2, 3]) },
          { type: "file", mediaType: "application/pdf", fileName: "a.pdf", data: "data:application/pdf;base64,AQID" },
          { type: "file", mediaType: "application/pdf", data: "", options: { openai: { fileId: "file-1" } } }
        ]
      }])
      assert.deepStrictEqual(user.content, [
        { type: "text", text: "look" },
        pngPart,
        { type: "image_url", image_url: { url: "data:image/jpeg;base64,AQID", detail: "low" } },
        { type: "image_url", image_url: { url: "https://example.com/a.jpg" } },
        { type: "input_audio", input_audio: { data: "AQID", format: "mp3" } },
        { type: "file", file: { filename: "a.pdf", file_data: "data:application/pdf;base64,AQID" } },
        { type: "file", file: { file_id: "file-1" } }
      ])
    }))

  it.effect.each(["audio/ogg", "application/pdf"])(
    "refuse %s the API can't carry",
    (mediaType) =>
      Effect.gen(function*() {
        const data = mediaType === "audio/ogg" ? new Uint8Array([1]) : new URL("https://example.com/a.pdf")
        const error = yield* Effect.flip(
          messages(ProviderProfile.openai, [{ role: "user", content: [{ type: "file", mediaType, data }] }])
        )
        assert.strictEqual(error.reason._tag, "InvalidUserInputError")
      })
  )

  it.effect("leave out what the provider ran itself, and messages with nothing in them", () =>
    Effect.gen(function*() {
      const all = yield* messages(ProviderProfile.openai, [
        { role: "user", content: "hello" },
        {
          role: "assistant",
          content: [
            { ...call("p", {}), providerExecuted: true },
            { ...result("p", {}), providerExecuted: true }
          ]
        },
        { role: "user", content: "and?" }
      ])
      assert.deepStrictEqual(all.map((message: { role: string }) => message.role), ["user", "user"])
    }))
})

describe("a round trip", () => {
  /** What the server gets back of its message in the next request, which is the same after a stream. */
  const ask = (profile: ProviderProfile.ProviderProfile, message: object) =>
    Effect.gen(function*() {
      const { baseUrl, received } = yield* serve(json({ choices: [{ message, finish_reason: "tool_calls" }] }))
      const options = { model: "m", baseUrl, profile, apiKey: Redacted.make("sk-0123456789") }
      const sentBack = (parts: ReadonlyArray<Response.AnyPart>) =>
        Effect.gen(function*() {
          yield* received
          yield* generate(options, { prompt: Prompt.concat(Prompt.make("hello"), Prompt.fromResponseParts(parts)) })
          return (yield* received).body["messages"][1]
        })
      const whole = yield* sentBack((yield* generate(options, { toolkit: Toolkit.make(Get) })).content)
      const streamed = yield* sentBack(
        yield* Stream.runCollect(stream(options, { toolkit: Toolkit.make(Get) }))
      )
      assert.deepStrictEqual(streamed, whole)
      return whole
    })

  const signed = {
    content: "",
    tool_calls: [{
      id: "a",
      type: "function",
      function: { name: "get", arguments: "{\"x\":1}" },
      extra_content: { google: { thought_signature: "c2ln" } }
    }]
  }

  // verifies: openai.round-trip
  it.effect("gives Gemini its thought signature back", () =>
    Effect.gen(function*() {
      const { role: _, ...sentBack } = yield* ask(ProviderProfile.gemini, signed)
      assert.deepStrictEqual(sentBack.tool_calls, signed.tool_calls)
    }))

  it.effect("keeps it from OpenAI, which would reject it", () =>
    Effect.gen(function*() {
      const sentBack = yield* ask(ProviderProfile.openai, signed)
      assert.notProperty(sentBack.tool_calls[0], "extra_content")
    }))

  // verifies: openai.reasoning
  it.effect("gives DeepSeek its reasoning back in the tool loop", () =>
    Effect.gen(function*() {
      const sentBack = yield* ask(ProviderProfile.deepSeek, { ...signed, reasoning_content: "because" })
      assert.strictEqual(sentBack.reasoning_content, "because")
    }))

  it.effect("gives OpenRouter its reasoning details back, joined", () =>
    Effect.gen(function*() {
      const details = [
        { type: "reasoning.text", index: 0, text: "be", signature: null },
        { type: "reasoning.text", index: 0, text: "cause", signature: "c2ln" },
        { type: "reasoning.encrypted", index: 1, data: "eA" }
      ]
      const sentBack = yield* ask(ProviderProfile.openRouter, {
        ...signed,
        reasoning: "because",
        reasoning_details: details
      })
      assert.strictEqual(sentBack.reasoning, "because")
      assert.deepStrictEqual(sentBack.reasoning_details, [
        { type: "reasoning.text", index: 0, text: "because", signature: "c2ln" },
        { type: "reasoning.encrypted", index: 1, data: "eA" }
      ])
    }))
})
