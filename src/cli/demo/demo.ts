/*
 * The main job, shown on one conversation: parallel calls, a failing tool the
 * model recovers from, a round that uses the results of the one before, and a
 * call the policy denies.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type { ChildProcessSpawner } from "effect/process/ChildProcessSpawner"
import * as LlmCycle from "../../llm/LlmCycle.ts"
import * as OpenAiModel from "../../openai/OpenAiModel.ts"
import * as PermissionPolicy from "../../tools/PermissionPolicy.ts"
import { converse } from "../converse.ts"
import type { CliFailure } from "../failure.ts"
import { type OutputClosed, print, style } from "../output.ts"
import { hasModel, modelLayer } from "../setup.ts"
import { startScriptedModel } from "./modelProcess.ts"
import * as DemoTools from "./tools.ts"

const QUESTION =
  "What is the weather in Oslo and Lima? Convert the warmer temperature to Fahrenheit. Erase all records."

export const runDemo = (
  question: string = QUESTION
): Effect.Effect<void, CliFailure | OutputClosed, ChildProcessSpawner> =>
  Effect.scoped(
    Effect.gen(function*() {
      const paint = style(process.stdout)
      const baseUrl = (yield* hasModel) ? undefined : yield* startScriptedModel
      yield* print(paint.dim(
        baseUrl === undefined
          ? "The model is the one your environment names."
          : `The model is scripted: rules in a process of its own at ${baseUrl}, not a language model.\n`
            + "Set OPENAI_API_KEY or OPENAI_BASE_URL to talk to a real one."
      ))
      yield* print(`${paint.bold(">")} ${question}\n`)
      const model = baseUrl === undefined
        ? modelLayer({ model: Option.none(), baseUrl: Option.none() })
        : OpenAiModel.layer({ model: "scripted", baseUrl })
      yield* converse(question, "human", process.stdout).pipe(
        Effect.provide(
          LlmCycle.layer({ errorPolicy: { PermissionDenied: "tell" } }).pipe(
            Layer.provide([model, DemoTools.layer.pipe(Layer.provide(PermissionPolicy.layer()))])
          )
        )
      )
    })
  )
